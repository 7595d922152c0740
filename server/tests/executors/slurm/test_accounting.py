"""A job that Slurm queued again: the accounting keeps a record of each time, all under one id."""

from pathlib import Path
from typing import Any

import pytest

from server.tests.executors.slurm.daemon import Daemon, ask
from server.tests.executors.slurm.replies import complaint, exit_code, job, jobs, number
from starforge.contract.ids import new_attempt_id, new_job_id
from starforge.contract.observation import EndCause, Exit, Seen
from starforge_console.executors.slurm.executor import SlurmExecutor
from starforge_console.executors.slurm.records import Launch, SlurmLaunches

ATTEMPT = new_attempt_id(new_job_id(), 1)
ID = 5737


def record(state: str, code: int, time: dict[str, int], **members: Any) -> dict[str, Any]:
    return {
        "job_id": ID,
        "name": f"starforge-{ATTEMPT}",
        "user": "ada",
        "state": {"current": [state], "reason": "None"},
        "exit_code": exit_code(code),
        "nodes": "cn1",
        "time": {**time, "limit": number(1)},
        **members,
    }


def find_exit(daemon: Daemon, tmp_path: Path, records: list[dict[str, Any]], mark: str) -> Exit:
    """What is told of an attempt that `mark` says to have begun, and that nothing but the accounting knows."""
    folder = tmp_path / "attempt" / ".slurm"
    folder.mkdir(parents=True)
    (folder / "start").write_text(f"{mark}\n")
    launch = Launch(attempt=ATTEMPT, user="ada", workdir=str(folder.parent), pools=(), job_id=ID)
    SlurmLaunches(tmp_path / "state").write(launch)
    daemon.serve("v0.0.41", accounting=True)
    daemon.answers["/slurm/v0.0.41/jobs"] = (200, jobs(job("RUNNING")))
    daemon.answers[f"/slurm/v0.0.41/job/{ID}"] = (404, jobs(errors=[complaint(2017, "Invalid job id specified")]))
    daemon.answers[f"/slurmdb/v0.0.41/job/{ID}"] = (200, jobs(*records))

    async def question(executor: SlurmExecutor) -> Any:
        return (await executor.observe([ATTEMPT]))[ATTEMPT]

    seen = ask(daemon, tmp_path, question)
    assert isinstance(seen, Seen)
    assert seen.exit is not None
    return seen.exit


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ({"submission": 1, "start": 9}, {"submission": 5, "start": 6}),
        ({"start": 2}, {"start": 6}),
        ({"submission": 1, "start": 0}, {"submission": 1, "start": 6}),
    ],
)
def test_the_newest_record_counts_and_not_the_worst(
    daemon: Daemon, tmp_path: Path, older: dict[str, int], newer: dict[str, int], *, is_reversed: bool
) -> None:
    records = [record("NODE_FAIL", 0, older), record("FAILED", 3, newer)]
    found = find_exit(daemon, tmp_path, records[::-1] if is_reversed else records, f"job {ID} 1")
    assert (found.code, found.cause) == (3, None)


def test_how_often_it_was_queued_again_tells_the_newest_where_no_time_does(daemon: Daemon, tmp_path: Path) -> None:
    records = [record("FAILED", 3, {}, restart_cnt=1), record("NODE_FAIL", 0, {}, restart_cnt=0)]
    assert find_exit(daemon, tmp_path, records, f"job {ID} 1").code == 3


def test_each_component_has_its_own_newest(daemon: Daemon, tmp_path: Path) -> None:
    records = [
        record("NODE_FAIL", 0, {"start": 1}),
        record("COMPLETED", 0, {"start": 5}),
        record("NODE_FAIL", 0, {"start": 1}, job_id=ID + 1, het_job_id=ID, het_job_offset=1),
        record("FAILED", 4, {"start": 5}, job_id=ID + 1, het_job_id=ID, het_job_offset=1),
    ]
    assert find_exit(daemon, tmp_path, records, f"job {ID} 1").code == 4


def test_an_attempt_that_began_before_it_was_queued_again_has_not_ended_well(daemon: Daemon, tmp_path: Path) -> None:
    records = [record("NODE_FAIL", 0, {"start": 1}), record("COMPLETED", 0, {"start": 5})]
    found = find_exit(daemon, tmp_path, records, f"job {ID} 0")
    assert (found.code, found.cause) == (None, EndCause.NODE_FAILED)
