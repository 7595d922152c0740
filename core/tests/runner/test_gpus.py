"""GPUs through a library that speaks NVML: a script in its place, so that no machine needs a compiler."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from starforge.contract import capsule as contract

CORE = Path(contract.__file__).parents[2]

# Two devices; the second tells its memory and not how busy it is. Python reads the file before anything else, and the
# functions are foreign ones to whoever calls them: their arguments pass through the same conversions as a library's.
LIBRARY = """
import ctypes
from ctypes import CFUNCTYPE, POINTER, c_int, c_uint, c_ulonglong, c_void_p

load = ctypes.CDLL


def count(into):
    into[0] = 2
    return 0


def open_device(index, into):
    into[0] = index + 1
    return 0


def tell_busy(device, into):
    if device == 2:
        return 3
    into[0], into[1] = 87, 12
    return 0


def tell_memory(device, into):
    into[0], into[1], into[2] = 80 << 30, 0, device << 30
    return 0


def tell_heat(device, sensor, into):
    into[0] = 61
    return 0 if (device, sensor) == (1, 0) else 3


def tell_power(device, into):
    into[0] = 301_500
    return 0 if device == 1 else 3


class Library:
    nvmlInit_v2 = CFUNCTYPE(c_int)(lambda: 0)
    nvmlDeviceGetCount_v2 = CFUNCTYPE(c_int, POINTER(c_uint))(count)
    nvmlDeviceGetHandleByIndex_v2 = CFUNCTYPE(c_int, c_uint, POINTER(c_void_p))(open_device)
    nvmlDeviceGetUtilizationRates = CFUNCTYPE(c_int, c_void_p, POINTER(c_uint))(tell_busy)
    nvmlDeviceGetMemoryInfo = CFUNCTYPE(c_int, c_void_p, POINTER(c_ulonglong))(tell_memory)
    nvmlDeviceGetPowerUsage = CFUNCTYPE(c_int, c_void_p, POINTER(c_uint))(tell_power)
    nvmlDeviceGetTemperature = CFUNCTYPE(c_int, c_void_p, c_int, POINTER(c_uint))(tell_heat)


ctypes.CDLL = lambda name, *more, **named: Library() if name == "libnvidia-ml.so.1" else load(name, *more, **named)
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("nvml")
    (root / "sitecustomize.py").write_text(LIBRARY)
    return root


def look(library: Path, **environment: str) -> dict[str, object]:
    code = (
        "import json; from starforge.runner.gpus import Nvml, find_visible_gpus; nvml = Nvml();"
        "print(json.dumps({'count': find_visible_gpus(nvml), 'sample': nvml.sample()}))"
    )
    names = {
        "PATH": os.environ["PATH"],
        "LD_LIBRARY_PATH": str(library),
        "PYTHONPATH": f"{library}:{CORE}",
        **environment,
    }
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=names)
    found: dict[str, object] = json.loads(ran.stdout)
    return found


def test_devices_are_counted_and_sampled(library: Path) -> None:
    assert look(library) == {
        "count": 2,
        "sample": [
            {"utilization_percent": 87, "memory_used_bytes": 1 << 30, "power_w": 301.5, "temperature_celsius": 61},
            {
                "utilization_percent": None,
                "memory_used_bytes": 2 << 30,
                "power_w": None,
                "temperature_celsius": None,
            },
        ],
    }


@pytest.mark.parametrize(("visible", "count"), [("0", 1), ("0,1,2", 2), ("", 0), ("-1", 0), ("all", 2)])
def test_cuda_visible_devices_limits_what_counts(library: Path, visible: str, count: int) -> None:
    assert look(library, CUDA_VISIBLE_DEVICES=visible)["count"] == count


def test_a_library_of_an_older_driver_tells_what_it_knows(tmp_path: Path) -> None:
    lines = [line for line in LIBRARY.splitlines() if not line.startswith("    nvmlDeviceGetPower")]
    (tmp_path / "sitecustomize.py").write_text("\n".join(lines))
    sample = look(tmp_path)["sample"]
    assert isinstance(sample, list)
    assert (sample[0]["power_w"], sample[0]["temperature_celsius"]) == (None, 61)


def test_with_a_library_that_cannot_be_loaded_nothing_is_sampled(tmp_path: Path) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_text("no library")
    assert look(tmp_path)["sample"] == []
