import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from starforge.containers.gpus import GpuSurvey, MadeUpGpus, NotKnown, NvidiaSmi, read_listing

TWO = """GPU-bbbb, 0, 00000000:86:00.0, NVIDIA H100 80GB HBM3, 81559, Disabled
GPU-aaaa, 1, 00000000:3B:00.0, NVIDIA H100 80GB HBM3, 81559, [N/A]
"""


def write_program(folder: Path, script: str) -> str:
    program = folder / "nvidia-smi"
    program.write_text("#!/bin/bash\n" + script)
    program.chmod(0o755)
    return str(program)


def known(result: GpuSurvey | NotKnown) -> GpuSurvey:
    assert isinstance(result, GpuSurvey)
    return result


def test_gpus_come_in_the_order_of_their_slots_with_name_and_memory() -> None:
    gpus = known(read_listing(TWO)).gpus
    assert [(gpu.uuid, gpu.index, gpu.memory_bytes) for gpu in gpus] == [
        ("GPU-aaaa", 1, 81559 * 1024**2),
        ("GPU-bbbb", 0, 81559 * 1024**2),
    ]


def test_an_unreadable_line_is_reported_and_spoils_no_other() -> None:
    survey = known(read_listing(TWO + "Unable to determine the device handle for gpu 0000:AF:00.0: Unknown Error\n"))
    assert len(survey.gpus) == 2
    assert "Unable to determine" in survey.complaints[0]


def test_a_gpu_named_twice_counts_once() -> None:
    survey = known(read_listing(TWO + TWO))
    assert len(survey.gpus) == 2
    assert len(survey.complaints) == 2


@pytest.mark.parametrize("text", ["", "No devices were found\n", "GPU-a, 0\n", "Failed to initialize NVML\n"])
def test_an_answer_without_a_gpu_is_not_known_and_never_zero(text: str) -> None:
    assert isinstance(read_listing(text), NotKnown)


def test_the_ceiling_offers_the_first_in_slot_order_and_says_when_fewer_are_there() -> None:
    assert [gpu.uuid for gpu in known(read_listing(TWO, 1)).gpus] == ["GPU-aaaa"]
    short = known(read_listing(TWO, 4))
    assert len(short.gpus) == 2
    assert short.complaints == ("4 GPUs are set to be offered, 2 are there",)
    assert len(known(read_listing(TWO, 0)).gpus) == 2


def test_a_gpu_that_is_cut_into_parts_is_no_whole_one() -> None:
    gpus = known(read_listing(TWO.replace("Disabled", "Enabled"))).gpus
    assert {gpu.uuid: gpu.why_not for gpu in gpus} == {"GPU-aaaa": "", "GPU-bbbb": "mig_enabled"}


def test_the_program_is_asked_with_named_fields(tmp_path: Path) -> None:
    program = write_program(tmp_path, f'[[ "$1" == --query-gpu=uuid,* ]] || exit 9\ncat <<"X"\n{TWO}X\n')
    assert len(known(NvidiaSmi(program=program).survey()).gpus) == 2


def test_a_failing_or_missing_program_is_not_known_with_its_words(tmp_path: Path) -> None:
    program = write_program(tmp_path, "echo 'Driver/library version mismatch'; exit 18")
    failed = NvidiaSmi(program=program).survey()
    assert isinstance(failed, NotKnown)
    assert "code 18: Driver/library version mismatch" in failed.reason
    missing = NvidiaSmi(program=str(tmp_path / "nothing")).survey()
    assert isinstance(missing, NotKnown)


def test_a_hanging_program_is_killed_with_everything_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    program = write_program(tmp_path, f"sleep 600 & echo $! >{pids}; echo $$ >>{pids}; wait")
    answer = NvidiaSmi(program=program, timeout_s=0.5).survey()
    assert isinstance(answer, NotKnown)
    assert "no answer in 0.5 s" in answer.reason
    deadline = time.monotonic() + 10
    for pid in map(int, pids.read_text().split()):
        while is_alive(pid):
            assert time.monotonic() < deadline


def test_many_who_ask_at_once_share_one_answer(tmp_path: Path) -> None:
    source = NvidiaSmi(program=write_program(tmp_path, f"echo x >>{tmp_path}/runs; sleep 0.2; cat <<'X'\n{TWO}X\n"))
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: known(source.survey()).gpus, range(8)))
    assert len(set(answers)) == 1
    assert (tmp_path / "runs").read_text() == "x\n"


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIG_DFL)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_made_up_gpus_stay_the_same_for_a_machine_and_differ_between_machines() -> None:
    here, again, there = (known(MadeUpGpus(2, "Test", name).survey()).gpus for name in ("n1", "n1", "n2"))
    assert here == again
    assert not {gpu.uuid for gpu in here} & {gpu.uuid for gpu in there}
    assert [gpu.index for gpu in here] == [0, 1]
