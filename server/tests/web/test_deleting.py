"""What becomes of a deleted job's files: out of sight at once, removed afterwards, whenever the console is killed."""

import asyncio
import math
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from server.tests.web.lives import run_to_end
from server.tests.web.support import ConsoleUnderTest, Logs, submit
from starforge.containers.storage import MARK_FILE
from starforge.contract.ids import JobId
from starforge.contract.states import Reason
from starforge.contract.turns import GoOnRequest
from starforge.errors import NotFound
from starforge_console.assembly.layout import StorageLayout
from starforge_console.assembly.removal import RemovalCut, remove_tree
from starforge_console.jobs.deleted import AGAIN_S, IDLE_S, DeletedRuns, put_aside
from starforge_console.ledger.accounts import Account, find_user
from starforge_console.ledger.stored import Store, note_stored
from starforge_console.web.deps import ApiServices

FILES = 3000

REMOVE = """
import sys
from pathlib import Path
from starforge_console.assembly.removal import remove_tree
print("begun", flush=True)
remove_tree(Path(sys.argv[1]))
"""


def make_run(folder: Path, files: int = 20) -> None:
    (folder / "out").mkdir(parents=True)
    for number in range(files):
        (folder / "out" / f"shard-{number}").touch()


def storage_of(console: ConsoleUnderTest) -> StorageLayout:
    return StorageLayout(console.root / "storage")


def remover(console: ConsoleUnderTest) -> DeletedRuns:
    return DeletedRuns(storage_of(console), console.services.blobs)


def ended(console: ConsoleUnderTest, headers: dict[str, str], files: int = 20) -> JobId:
    job = submit(console, headers)
    run_to_end(console, job)
    make_run(console.run_folder(job), files)
    return job


def test_a_deleted_job_is_gone_at_once_and_its_files_afterwards(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job, other = ended(console, headers), ended(console, headers)
    assert console.client(headers).delete(f"/api/v1/jobs/{job}").status_code == 204
    assert console.client(headers).get(f"/api/v1/jobs/{job}").status_code == 404
    assert not console.run_folder(job).exists()
    (aside,) = storage_of(console).deleted.iterdir()
    assert len(list((aside / "out").iterdir())) == 20  # the request removed none of them
    assert asyncio.run(remover(console).run_once()) == IDLE_S
    assert list(storage_of(console).deleted.iterdir()) == []
    assert len(list((console.run_folder(other) / "out").iterdir())) == 20


def test_what_a_deleted_job_held_counts_no_more(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job, other = ended(console, headers), ended(console, headers)
    for one in (job, other):
        console.ledger.write_now(lambda c: note_stored(c, one, {(Store.LOG, 1): 9}))  # noqa: B023 - called at once
    console.client(headers).delete(f"/api/v1/jobs/{job}")
    (quota,) = console.client(headers).get("/api/v1/quotas").json()["items"]
    assert [(run["job"], run["stored_bytes"]) for run in quota["runs"] if run["stored_bytes"]] == [(other, 9)]
    assert quota["stored_bytes"] == 9


class RetriedLogs(Logs):
    """Logs of a job that somebody lets run again while they are removed."""

    services: ApiServices
    account: Account
    job: JobId
    retry: "asyncio.Task[None] | None" = None

    async def remove_logs(self, attempts: Sequence[str]) -> None:
        await super().remove_logs(attempts)
        self.retry = asyncio.create_task(self.services.turns.retry(self.account, self.job, GoOnRequest()))
        await asyncio.wait([self.retry], timeout=0.5)


def test_a_job_that_is_being_deleted_is_not_begun_anew_without_its_files(console: ConsoleUnderTest) -> None:
    job = submit(console, console.add_user("ann"))
    run_to_end(console, job, Reason.EXITED_NONZERO)
    make_run(console.run_folder(job))
    logs = RetriedLogs()
    logs.services = services = replace(console.services, logs=logs)
    logs.account = account = Account(
        user_id=console.ledger.read_now(lambda c: find_user(c, "ann")) or 0,
        user="ann",
        role="member",
        active=True,
        scopes=frozenset({"read", "submit"}),
        expires_at=math.inf,
    )
    logs.job = job

    async def go() -> None:
        await services.jobs.delete(account, job)
        assert logs.retry is not None
        with pytest.raises(NotFound):
            await asyncio.wait_for(logs.retry, 20)

    asyncio.run(go())
    assert console.client(console.add_user("bob")).get(f"/api/v1/jobs/{job}").status_code == 404


def test_a_job_that_was_put_aside_before_a_kill_is_deleted_again(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = ended(console, headers)
    put_aside(storage_of(console), job)  # and there the console was killed: the record is there still
    assert console.client(headers).delete(f"/api/v1/jobs/{job}").status_code == 204
    assert console.client(headers).get(f"/api/v1/jobs/{job}").status_code == 404
    asyncio.run(remover(console).run_once())
    assert list(storage_of(console).deleted.iterdir()) == []


def test_what_a_killed_process_left_is_removed_by_the_next(console: ConsoleUnderTest) -> None:
    storage = storage_of(console)
    job = JobId("j234567abc")
    make_run(storage.run(job), FILES)
    put_aside(storage, job)
    (aside,) = storage.deleted.iterdir()
    with subprocess.Popen([sys.executable, "-c", REMOVE, str(aside)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        os.kill(process.pid, signal.SIGKILL)
    asyncio.run(remover(console).run_once())
    assert list(storage.deleted.iterdir()) == []


def test_a_removal_stops_where_it_is_when_the_console_ends(tmp_path: Path) -> None:
    make_run(tmp_path / "run", 100)
    asked = iter([True] * 50 + [False])
    with pytest.raises(RemovalCut):
        remove_tree(tmp_path / "run", is_wanted=lambda: next(asked))
    assert 0 < len(list((tmp_path / "run").rglob("shard-*"))) < 100
    remove_tree(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_after_its_close_nothing_more_is_removed(console: ConsoleUnderTest) -> None:
    job = JobId("j234567abc")
    make_run(storage_of(console).run(job))
    put_aside(storage_of(console), job)
    deleted = remover(console)
    deleted.close()
    asyncio.run(deleted.run_once())
    assert len(list(storage_of(console).deleted.rglob("shard-*"))) == 20


def test_a_folder_that_cannot_be_removed_is_told_and_keeps_no_other_from_going(console: ConsoleUnderTest) -> None:
    storage = storage_of(console)
    first, second = JobId("j234567abc"), JobId("j234567abd")
    for job in (first, second):
        make_run(storage.run(job))
        put_aside(storage, job)
    strange = storage.deleted / "a-file"
    strange.write_text("no folder")
    with capture_logs() as logs:
        assert asyncio.run(remover(console).run_once()) == AGAIN_S
    assert [entry["folder"] for entry in logs] == [str(strange)]
    assert list(storage.deleted.iterdir()) == [strange]


def test_nothing_is_removed_while_the_storage_is_not_mounted(console: ConsoleUnderTest) -> None:
    storage, job = storage_of(console), JobId("j234567abc")
    make_run(storage.run(job))
    put_aside(storage, job)
    mark = console.root / "storage" / MARK_FILE
    mark.rename(console.root / "elsewhere")
    assert asyncio.run(remover(console).run_once()) == AGAIN_S
    assert len(list(storage.deleted.rglob("shard-*"))) == 20
    (console.root / "elsewhere").rename(mark)
