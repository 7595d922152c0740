"""The GPUs of this machine: a real program plays nvidia-smi, and a folder plays /proc."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from starforge.containers.gpu_cards import Listing
from starforge.containers.gpu_listing import read_capture
from starforge.containers.gpu_users import GpuUser, Stranger, find_container, find_stranger, read_users
from starforge.containers.gpus import GpuSurvey, MadeUpGpus, NotKnown, NvidiaSmi, build_survey
from starforge.containers.nvidia_smi import NvidiaSmiReader

A, B = "GPU-aaaaaaaa-0000-0000-0000-000000000001", "GPU-bbbbbbbb-0000-0000-0000-000000000002"
HEADER = "uuid, index, pci.bus_id, name, memory.total [MiB], driver_version, mig.mode.current\n"
FIRST = f"{B}, 0, 00000000:86:00.0, NVIDIA H100 80GB HBM3, 81559, 550.54, Disabled\n"
SECOND = f"{A}, 1, 00000000:3B:00.0, NVIDIA H100 80GB HBM3, 81559, 550.54, [N/A]\n"
TWO = HEADER + FIRST + SECOND
LOST = (
    "Unable to determine the device handle for GPU1: 0000:AF:00.0: GPU is lost.  Reboot the system to recover this GPU"
)
MINE, OTHERS = "a" * 64, "b" * 64


def write_program(folder: Path, script: str) -> str:
    program = folder / "nvidia-smi"
    program.write_text("#!/bin/bash\n" + script)
    program.chmod(0o755)
    return str(program)


def write_answers(folder: Path, cards: str = TWO, users: str = "") -> str:
    """A program that lists `cards`, and `users` when it is asked who uses them."""
    return write_program(
        folder,
        f"if [[ \"$1\" == --query-compute-apps=gpu_uuid,pid ]]; then cat <<'X'\n{users}\nX\nexit; fi\n"
        f"[[ \"$1\" == --query-gpu=uuid,* ]] || exit 9\ncat <<'X'\n{cards}X\n",
    )


def known(result: GpuSurvey | NotKnown) -> GpuSurvey:
    assert isinstance(result, GpuSurvey)
    return result


def survey(text: str, ceiling: int = 0) -> GpuSurvey | NotKnown:
    return build_survey(read_capture(text), ceiling)


def test_gpus_come_in_the_order_of_their_slots_with_name_and_memory() -> None:
    gpus = known(survey(TWO)).gpus
    assert [(gpu.uuid, gpu.index, gpu.memory_bytes) for gpu in gpus] == [
        (A, 1, 81559 * 1024**2),
        (B, 0, 81559 * 1024**2),
    ]


def test_an_unreadable_line_is_reported_and_spoils_no_other() -> None:
    found = known(survey(TWO + "WARNING: infoROM is corrupted at gpu 0000:67:00.0\n"))
    assert len(found.gpus) == 2
    assert "infoROM" in found.complaints[0]


def test_a_lost_gpu_is_reported_and_the_others_stay() -> None:
    found = known(survey(HEADER + FIRST + LOST))
    assert [gpu.uuid for gpu in found.gpus] == [B]
    assert found.complaints == ("card 0000:AF:00.0 is lost; reboot the machine to get it back",)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "No devices were found\n",
        "GPU-a, 0\n",
        "Failed to initialize NVML: Unknown Error\n",
        TWO + FIRST.replace(B, "GPU-cccccccc-0000-0000-0000-000000000003"),
        TWO + FIRST.replace(", 0, ", ", 5, "),
    ],
)
def test_an_answer_without_a_gpu_or_against_itself_is_not_known_and_never_zero(text: str) -> None:
    assert isinstance(survey(text), NotKnown)


def test_the_ceiling_offers_the_first_in_slot_order_and_says_when_fewer_are_there() -> None:
    assert [gpu.uuid for gpu in known(survey(TWO, 1)).gpus] == [A]
    short = known(survey(TWO, 4))
    assert len(short.gpus) == 2
    assert short.complaints == ("4 GPUs are set to be offered, 2 are there",)
    assert len(known(survey(TWO, 0)).gpus) == 2


def test_a_gpu_that_is_cut_into_parts_is_no_whole_one() -> None:
    found = known(survey(TWO.replace("Disabled", "Enabled")))
    assert {gpu.uuid: gpu.why_not for gpu in found.gpus} == {A: "", B: "mig_enabled"}
    assert found.complaints == (f"GPU 0 ({B}) is not offered: it is cut into MIG parts",)


def test_the_program_is_asked_with_named_fields(tmp_path: Path) -> None:
    assert len(known(NvidiaSmi(program=write_answers(tmp_path)).survey()).gpus) == 2


def test_fields_that_a_driver_does_not_know_are_left_out_as_long_as_it_stays(tmp_path: Path) -> None:
    program = write_program(
        tmp_path,
        f"""echo "$1" >>{tmp_path}/asked
for field in gpu_recovery_action remapped_rows.failure; do
  [[ "$1" == *$field* && ! -e {tmp_path}/newer ]] && {{
    echo "Field \\"$field\\" is not a valid field to query."; exit 2
  }}
done
sed "s/550.54/$(cat {tmp_path}/newer || echo 550.54)/" <<'X'
{TWO}X
""",
    )
    reader = NvidiaSmiReader(program)

    def ask() -> list[str]:
        (tmp_path / "asked").write_text("")
        listing = reader.read_cards()
        assert isinstance(listing, Listing)
        assert [card.uuid for card in listing.cards] == [B, A]
        return (tmp_path / "asked").read_text().splitlines()

    assert len(ask()) == 3
    (again,) = ask()
    assert "gpu_recovery_action" not in again
    assert "reset_status.reset_required" in again
    (tmp_path / "newer").write_text("600.1")
    ask()
    assert "gpu_recovery_action" in ask()[0]


def test_where_one_gpu_stops_the_whole_query_the_others_are_asked_by_name(tmp_path: Path) -> None:
    program = write_program(
        tmp_path,
        f"""case "$*" in
  --query-compute-apps=*) ;;
  -L) echo "GPU 0: NVIDIA H100 80GB HBM3 (UUID: {B})"; echo "{LOST}"; exit 15 ;;
  *--id={B}) cat <<'X'
{HEADER}{FIRST}X
  ;;
  *) echo "{LOST}"; exit 15 ;;
esac
""",
    )
    found = known(NvidiaSmi(program=program).survey())
    assert [gpu.uuid for gpu in found.gpus] == [B]
    assert found.complaints == ("card 0000:AF:00.0 is lost; reboot the machine to get it back",)


def test_a_code_that_nothing_explains_leaves_the_gpus_not_known(tmp_path: Path) -> None:
    failed = NvidiaSmi(program=write_program(tmp_path, f"cat <<'X'\n{TWO}X\nexit 3")).survey()
    assert isinstance(failed, NotKnown)
    assert "ended with code 3" in failed.reason


def test_a_failing_or_missing_program_is_not_known_with_the_reason(tmp_path: Path) -> None:
    program = write_program(tmp_path, "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18")
    failed = NvidiaSmi(program=program).survey()
    assert isinstance(failed, NotKnown)
    assert "reboot the machine" in failed.reason
    missing = NvidiaSmi(program=str(tmp_path / "nothing")).survey()
    assert isinstance(missing, NotKnown)
    assert "cannot be run" in missing.reason


def test_processes_on_a_gpu_are_told_with_their_container(tmp_path: Path) -> None:
    proc = tmp_path / "proc"
    for pid, group in (("11", f"0::/system.slice/docker-{MINE}.scope\n"), ("12", "0::/user.slice/session.scope\n")):
        (proc / pid).mkdir(parents=True)
        (proc / pid / "cgroup").write_text(group)
    program = write_answers(tmp_path, users=f"{A}, 11\n{B}, 12\n{B}, 13")
    gpus = known(NvidiaSmi(program=program, proc=proc).survey()).gpus
    assert {gpu.uuid: gpu.users for gpu in gpus} == {
        A: (GpuUser("11", MINE),),
        B: (GpuUser("12", ""), GpuUser("13", None)),
    }


def test_who_uses_the_gpus_may_not_be_known_and_the_gpus_are(tmp_path: Path) -> None:
    program = write_program(
        tmp_path, f"[[ \"$1\" == --query-compute-apps=* ]] && {{ echo no; exit 6; }}\ncat <<'X'\n{TWO}X\n"
    )
    found = known(NvidiaSmi(program=program).survey())
    assert len(found.gpus) == 2
    assert found.complaints[0].startswith("who uses the GPUs is not known")


def test_a_line_about_processes_that_cannot_be_read_makes_all_of_them_unknown(tmp_path: Path) -> None:
    assert read_users("", tmp_path) == {}
    assert read_users("No running processes found\n", tmp_path) == {}
    assert read_users(f"{A}, 1, 2\n", tmp_path) is None
    assert read_users(f"{A}, [N/A]\n", tmp_path) == {A: (GpuUser("[N/A]", None),)}


def test_the_container_of_a_process_is_found_in_either_kind_of_control_group(tmp_path: Path) -> None:
    for pid, text in (("1", f"12:memory:/docker/{MINE}\n1:cpu:/docker/{MINE}\n"), ("2", "0::/init.scope\n"), ("3", "")):
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "cgroup").write_text(text)
    assert [find_container(pid, tmp_path) for pid in ("1", "2", "3", "4", "../1")] == [MINE, "", None, None, None]


def test_a_stranger_is_who_is_in_no_container_of_ours_and_not_knowing_is_told_apart() -> None:
    mine, theirs, bare, hidden = (GpuUser(str(n), c) for n, c in enumerate((MINE, OTHERS, "", None)))
    assert find_stranger([], {MINE}) is None
    assert find_stranger([mine], {MINE}) is None
    assert find_stranger([mine, bare], {MINE}) == Stranger(known=True, why="process 2 uses it, in no container")
    assert find_stranger([hidden, theirs], {MINE}) == Stranger(
        known=True, why=f"process 1 uses it, in container {OTHERS[:12]}, which has no job here"
    )
    unknown = find_stranger([mine, hidden], {MINE})
    assert unknown is not None
    assert not unknown.known


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
    source = NvidiaSmi(program=write_program(tmp_path, f"echo $1 >>{tmp_path}/runs; sleep 0.2; cat <<'X'\n{TWO}X\n"))
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: known(source.survey()).gpus, range(8)))
    assert len(set(answers)) == 1
    assert len((tmp_path / "runs").read_text().splitlines()) == 2  # the GPUs once, and once who uses them


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
