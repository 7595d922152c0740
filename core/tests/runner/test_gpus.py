"""GPUs through a library that speaks NVML, built for the test."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from starforge.contract import capsule as contract

CORE = Path(contract.__file__).parents[2]
COMPILER = shutil.which("cc") or shutil.which("gcc")

# Two devices; the second tells its memory and not how busy it is.
LIBRARY = """
static long handles[2] = {1, 2};
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { *device = &handles[index]; return 0; }
int nvmlDeviceGetUtilizationRates(void *device, unsigned *busy) {
  if (*(long *)device == 2) return 3;
  busy[0] = 87; busy[1] = 12; return 0;
}
int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *memory) {
  memory[0] = 80ull << 30; memory[1] = 0; memory[2] = (unsigned long long)*(long *)device << 30; return 0;
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if COMPILER is None:
        pytest.skip("there is no C compiler to build the library with")
    root = tmp_path_factory.mktemp("nvml")
    (root / "nvml.c").write_text(LIBRARY)
    command = [COMPILER, "-shared", "-fPIC", "-o", str(root / "libnvidia-ml.so.1"), str(root / "nvml.c")]
    subprocess.run(command, check=True)
    return root


def look(library: Path, **environment: str) -> dict[str, object]:
    code = (
        "import json; from starforge.runner.gpus import Nvml, find_visible_gpus; nvml = Nvml();"
        "print(json.dumps({'count': find_visible_gpus(nvml), 'sample': nvml.sample()}))"
    )
    names = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": str(library), "PYTHONPATH": str(CORE), **environment}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=names)
    found: dict[str, object] = json.loads(ran.stdout)
    return found


def test_devices_are_counted_and_sampled(library: Path) -> None:
    assert look(library) == {
        "count": 2,
        "sample": [
            {"utilization_percent": 87, "memory_used_bytes": 1 << 30},
            {"utilization_percent": None, "memory_used_bytes": 2 << 30},
        ],
    }


@pytest.mark.parametrize(("visible", "count"), [("0", 1), ("0,1,2", 2), ("", 0), ("-1", 0), ("all", 2)])
def test_cuda_visible_devices_limits_what_counts(library: Path, visible: str, count: int) -> None:
    assert look(library, CUDA_VISIBLE_DEVICES=visible)["count"] == count


def test_with_a_library_that_cannot_be_loaded_nothing_is_sampled(tmp_path: Path) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_text("no library")
    assert look(tmp_path)["sample"] == []
