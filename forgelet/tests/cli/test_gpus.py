"""`forgelet gpus` as a person or a script calls it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from starforge.containers.gpu_users import find_container

FORGELET = Path(sys.executable).with_name("forgelet")
ONE = "GPU-7ed352c2-30e7-91b9-a8d4-2760ea2edd4c"
TWO = "GPU-95d2164f-7843-6bb9-1f32-8c17f95b596a"
LISTING = f"GPU 0: NVIDIA H100 PCIe (UUID: {ONE})\nGPU 1: Unheard Of (UUID: {TWO})\n"


def call(*arguments: str, path: Path | None = None, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    env = dict(os.environ, PATH=str(path)) if path else None
    return subprocess.run(
        [FORGELET, "gpus", *arguments], input=given, capture_output=True, timeout=60, check=False, env=env
    )


def show(*arguments: str, path: Path | None = None, given: bytes = b"") -> dict[str, Any]:
    done = call("--json", *arguments, path=path, given=given)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert isinstance(shown, dict)
    return shown


def write_program(folder: Path, script: str) -> Path:
    program = folder / "nvidia-smi"
    program.write_text("#!/bin/bash\n" + script)
    program.chmod(0o755)
    return folder


def test_a_capture_is_read_from_a_file_or_from_standard_input(tmp_path: Path) -> None:
    (tmp_path / "listing").write_text(LISTING)
    wanted = {
        "gpus": [
            {
                "index": 0,
                "uuid": ONE,
                "name": "NVIDIA H100 PCIe",
                "series": "h100-pcie",
                "memory_mib": None,
                "usable": True,
                "why": None,
            },
            {
                "index": 1,
                "uuid": TWO,
                "name": "Unheard Of",
                "series": None,
                "memory_mib": None,
                "usable": True,
                "why": None,
            },
        ],
        "errors": [],
    }
    assert show("--from", str(tmp_path / "listing")) == wanted
    assert show("--from", "-", given=LISTING.encode("utf-16")) == wanted


def test_an_error_about_one_gpu_names_its_bus_and_others_have_code_and_message_alone() -> None:
    lost = show("--from", "-", given=b"Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost.")
    assert lost["gpus"] == []
    assert (lost["errors"][0]["code"], lost["errors"][0]["bus"]) == ("gpu_lost", "0000:02:00.0")
    (none,) = show("--from", "-", given=b"No devices were found\n")["errors"]
    assert set(none) == {"code", "message"}
    assert none["code"] == "no_devices"


@pytest.mark.parametrize("source", ["-", "missing"])
def test_what_is_no_listing_is_refused(source: str) -> None:
    done = call("--json", "--from", source, given=b"hello\n")
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["code"] == "input_invalid"


def test_people_see_a_table_and_what_is_wrong_beside_it(tmp_path: Path) -> None:
    (tmp_path / "listing").write_text(
        LISTING
        + "  MIG 1g.5gb Device 0: (UUID: MIG-1)\nUnable to determine the device handle for GPU 2: Unknown Error\n"
    )
    done = call("--from", str(tmp_path / "listing"))
    assert done.returncode == 0
    assert b"mig_enabled: it is cut into MIG parts" in done.stdout
    assert b"warning: gpu_handle: GPU 2 does not answer (Unknown Error)" in done.stderr


def test_the_gpus_of_this_machine_come_from_the_program_on_the_path(tmp_path: Path) -> None:
    fields = "uuid, index, pci.bus_id, name, memory.total [MiB], driver_version, ecc.errors.uncorrected.volatile.total"
    write_program(
        tmp_path,
        f"""[[ "$1" == --query-compute-apps=* ]] && {{ echo "{TWO}, {os.getpid()}"; exit; }}
echo "{fields}"
echo "{ONE}, 0, 00000000:01:00.0, NVIDIA L4, 23034, 550.54, 2"
echo "{TWO}, 1, 00000000:02:00.0, NVIDIA L4, 23034, 550.54, 0"
""",
    )
    shown = show(path=tmp_path)
    # The test's own process plays the stranger: it is one unless the tests themselves run in a container.
    stranger = None if find_container(str(os.getpid()), Path("/proc")) else "foreign"
    assert [(gpu["memory_mib"], gpu["why"]) for gpu in shown["gpus"]] == [(23034, "quarantined"), (23034, stranger)]


def test_a_machine_without_the_program_has_no_driver_and_an_odd_answer_is_no_listing(tmp_path: Path) -> None:
    assert show(path=tmp_path)["errors"][0]["code"] == "driver_not_loaded"
    odd = call("--json", path=write_program(tmp_path, "echo what; exit 3"))
    assert odd.returncode == 1
    assert "code 3: what" in json.loads(odd.stdout)["error"]["why"]
