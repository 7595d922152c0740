"""The collector over a real ledger and real folders: what goes, what stays, and what a cut leaves."""

import asyncio
import json
import os
import shutil
from pathlib import Path

import pytest
from sqlalchemy import select

from server.tests.retention.yard import Yard, open_yard
from server.tests.web.support import WORKSPACE
from starforge.contract.canonical import digest_bytes
from starforge.contract.ids import Digest
from starforge.contract.states import Reason
from starforge.errors import Conflict, StarForgeError
from starforge_console.blobs.places import locate_blob, locate_incoming
from starforge_console.domain.inputs import CheckpointInput
from starforge_console.domain.retention import Kind, Removal
from starforge_console.ledger.database import Database
from starforge_console.ledger.fleets import add_fact
from starforge_console.ledger.removals import begin_removals, is_checkpoint_removed, list_unfinished
from starforge_console.ledger.retention_runs import MOST_HOLDS, Hold, add_hold, list_holds, new_hold_id
from starforge_console.ledger.share_tables import stored
from starforge_console.ledger.stored import Store, note_stored
from starforge_console.retention.collector import Outcome
from starforge_console.wakeups import QUEUE


def collect(yard: Yard) -> Outcome:
    return asyncio.run(yard.collector.collect("ada"))


def plan(yard: Yard) -> Outcome:
    return asyncio.run(yard.collector.plan(500))


def kinds(outcome: Outcome) -> list[str]:
    return sorted(
        f"{one.kind}{' ' + one.name if one.name and one.kind is Kind.CHECKPOINT else ''}" for one in outcome.items
    )


def list_files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def test_a_dry_run_names_what_would_go_with_its_size_and_changes_nothing(tmp_path: Path) -> None:
    with open_yard(tmp_path) as yard:
        job, attempt = yard.end(steps=(1, 2, 3, 4))
        yard.later(8)
        before = list_files(tmp_path / "storage")
        found = plan(yard)
        assert kinds(found) == ["checkpoint step-1", "work"]
        work = next(one for one in found.items if one.kind is Kind.WORK)
        assert (work.job, work.attempt, work.bytes, work.why) == (job, attempt, 13, "its job ended 8 d ago")
        assert list_files(tmp_path / "storage") == before
        assert yard.notes(job) == []


def test_what_is_over_its_time_goes_and_the_job_tells_so(tmp_path: Path) -> None:
    with open_yard(tmp_path) as yard:
        job, attempt = yard.end(steps=(1, 2, 3, 4))
        yard.later(91)
        assert kinds(collect(yard)) == ["checkpoint step-1", "log", "work"]
        root = yard.layout(attempt).root
        assert not (root / "work").exists()
        assert not (root / "home").exists()
        assert not (root / "spool").exists()
        assert not (yard.logs_dir / attempt).exists()
        assert yard.segments(attempt) == 0
        assert yard.checkpoints(attempt) == ["step-2", "step-3", "step-4"]
        assert [one.name for one in yard.layout(attempt).kept.iterdir()] == ["ckpt"]
        assert (yard.out(job) / "model.bin").read_bytes() == b"weights"
        assert yard.notes(job) == [
            "retention removed the working directory of attempt 1 (13 B): its job ended 91 d ago",
            "retention removed the log of attempt 1 (12 B): its job ended 91 d ago",
            "retention removed the checkpoint step-1 of attempt 1 (89 B): 3 newer ones of the job stay",
        ]


def test_what_goes_counts_no_more_for_its_user_and_the_queue_hears_of_it(tmp_path: Path) -> None:
    with open_yard(tmp_path) as yard:
        job, _ = yard.end(steps=(1, 2, 3, 4))
        held = {(Store.ARTIFACTS, 1): 7, (Store.CHECKPOINTS, 1): 5000, (Store.LOG, 1): 6}
        yard.console.ledger.write_now(lambda c: note_stored(c, job, held))
        yard.later(91)

        async def is_heard() -> bool:
            yard.console.services.wakeups.bind()
            waiter = yard.console.services.wakeups.subscribe(QUEUE)
            await yard.collector.collect("ada")
            return await waiter.wait(5.0)

        assert asyncio.run(is_heard())
        rows = yard.console.ledger.read_now(lambda c: c.execute(select(stored.c.kind, stored.c.bytes)).all())
        manifests = sum(len(file.read_bytes()) for file in (tmp_path / "storage").rglob("starforge-checkpoint.json"))
        assert dict(map(tuple, rows)) == {"artifacts": 7, "checkpoints": 2 + 3 + 4 + manifests}


def test_a_second_pass_removes_nothing_more(tmp_path: Path) -> None:
    with open_yard(tmp_path) as yard:
        job, _ = yard.end(steps=(1, 2, 3, 4))
        yard.later(91)
        collect(yard)
        told, files = yard.notes(job), list_files(tmp_path / "storage")
        assert collect(yard).items == []
        assert plan(yard).items == []
        assert (yard.notes(job), list_files(tmp_path / "storage")) == (told, files)


def test_nothing_goes_of_a_job_that_runs_nor_of_one_that_another_starts_from(tmp_path: Path) -> None:
    with open_yard(tmp_path) as yard:
        yard.start()
        parent, _ = yard.end(steps=(1, 2, 3, 4, 5))
        yard.start_from(parent)
        yard.later(1000)
        before = list_files(tmp_path / "storage")
        assert plan(yard).items == []
        assert collect(yard).items == []
        assert list_files(tmp_path / "storage") == before


def test_a_job_that_begins_to_be_a_parent_after_the_decision_keeps_everything(tmp_path: Path) -> None:
    with open_yard(tmp_path) as yard:
        job, attempt = yard.end(steps=(1, 2, 3, 4))
        yard.later(8)
        decided = [one for one in plan(yard).items if one.kind is Kind.CHECKPOINT]
        yard.start_from(job)
        assert yard.console.ledger.write_now(lambda c: begin_removals(c, decided, 1.0)) == ()
        assert (job, attempt, yard.notes(job)) == (decided[0].job, decided[0].attempt, [])


def test_from_a_checkpoint_that_is_about_to_go_no_job_may_start(tmp_path: Path) -> None:
    with open_yard(tmp_path) as yard:
        job, _ = yard.end(steps=(1, 2, 3, 4))
        yard.later(8)
        decided = [one for one in plan(yard).items if one.kind is Kind.CHECKPOINT]
        yard.console.ledger.write_now(lambda c: begin_removals(c, decided, 1.0))
        gone = CheckpointInput(job=job, attempt=1, step=1, folder="step-1")
        here = CheckpointInput(job=job, attempt=1, step=2, folder="step-2")
        inside = CheckpointInput(job=job, attempt=1, step=1, folder="step-1/actor")
        found = yard.console.ledger.read_now(lambda c: [is_checkpoint_removed(c, one) for one in (gone, here, inside)])
        assert found == [True, False, True]


def test_a_failed_job_keeps_what_a_new_attempt_would_read(tmp_path: Path) -> None:
    with open_yard(tmp_path) as yard:
        _job, attempt = yard.start()
        for step in (1, 2, 3, 4):
            yard.commit(attempt, step)
        yard.finish(_job, attempt, Reason.EXITED_NONZERO)
        yard.later(1000)
        collect(yard)
        assert yard.checkpoints(attempt) == ["step-2", "step-3", "step-4"]
        assert locate_blob(tmp_path / "storage", digest_bytes(WORKSPACE)).exists()


def test_a_workspace_goes_a_fortnight_after_its_last_job_was_deleted(tmp_path: Path) -> None:
    with open_yard(tmp_path) as yard:
        job, _ = yard.end()
        path = locate_blob(tmp_path / "storage", digest_bytes(WORKSPACE))
        os.utime(path, (1, 1))
        assert yard.console.client(yard.headers).delete(f"/api/v1/jobs/{job}").status_code == 204
        yard.later(13.9)
        assert collect(yard).items == []
        yard.later(0.2)
        (gone,) = collect(yard).items
        assert (gone.kind, gone.name, gone.bytes) == (Kind.BLOB, digest_bytes(WORKSPACE), len(WORKSPACE))
        assert not path.exists()
        assert list(locate_incoming(tmp_path / "storage").iterdir()) == []


def test_a_workspace_that_somebody_just_asked_for_stays(tmp_path: Path) -> None:
    with open_yard(tmp_path) as yard:
        yard.console.keep_workspace()
        path = locate_blob(tmp_path / "storage", digest_bytes(WORKSPACE))
        os.utime(path, (1, 1))
        assert kinds(plan(yard)) == ["blob"]
        yard.console.client(yard.headers).get(f"/api/v1/blobs/{digest_bytes(WORKSPACE)}")
        assert collect(yard).items == []
        assert path.exists()


def test_the_runner_of_the_next_attempt_stays(tmp_path: Path) -> None:
    with open_yard(tmp_path) as yard:
        path = locate_blob(tmp_path / "storage", Digest("sha256:" + "0" * 64))
        path.parent.mkdir(parents=True)
        path.write_bytes(b"runner")
        os.utime(path, (1, 1))
        assert collect(yard).items == []


def test_what_a_cut_pass_took_aside_is_put_back_first(tmp_path: Path) -> None:
    with open_yard(tmp_path) as yard:
        yard.end()
        digest = digest_bytes(WORKSPACE)
        path = locate_blob(tmp_path / "storage", digest)
        incoming = locate_incoming(tmp_path / "storage")
        incoming.mkdir(parents=True)
        path.replace(incoming / f"removing-{digest.removeprefix('sha256:')}")
        assert [one.kind for one in collect(yard).items] == []
        assert path.read_bytes() == WORKSPACE


def test_leavings_of_uploads_go_after_a_day(tmp_path: Path) -> None:
    with open_yard(tmp_path) as yard:
        incoming = locate_incoming(tmp_path / "storage")
        incoming.mkdir(parents=True)
        (incoming / "partial-x").write_bytes(b"half")
        assert collect(yard).items == []
        yard.later(1.1)
        assert kinds(collect(yard)) == ["upload"]
        assert list(incoming.iterdir()) == []


@pytest.mark.parametrize("cut", ["before", "after the log's rows", "after a move", "in the middle of a folder"])
def test_what_a_cut_pass_had_begun_comes_to_its_end_in_the_next_one(tmp_path: Path, cut: str) -> None:
    with open_yard(tmp_path) as yard:
        job, attempt = yard.end(steps=(1, 2, 3, 4))
        yard.later(91)
        decided = plan(yard).items
        yard.console.ledger.write_now(lambda c: begin_removals(c, decided, 1.0))
        layout = yard.layout(attempt)
        if cut == "after the log's rows":
            shutil.rmtree(yard.logs_dir / attempt)
        if cut == "after a move":
            step = next(one for one in decided if one.kind is Kind.CHECKPOINT)
            yard.collector._parts.disk._move_aside(step)
            assert yard.checkpoints(attempt) == ["step-2", "step-3", "step-4"]
        if cut == "in the middle of a folder":
            (layout.root / "work" / "train.py").unlink()
        assert kinds(collect(yard)) == ["checkpoint step-1", "log", "work"]
        assert yard.console.ledger.read_now(lambda c: list_unfinished(c, 10)) == []
        assert [one.name for one in layout.kept.iterdir()] == ["ckpt"]
        assert yard.segments(attempt) == 0
        assert not (layout.root / "work").exists()
        assert len(yard.notes(job)) == 3


def test_a_link_in_the_place_of_a_folder_goes_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    with open_yard(tmp_path) as yard:
        _, attempt = yard.end()
        work = yard.layout(attempt).root / "work"
        shutil.rmtree(work)
        (tmp_path / "precious").mkdir()
        (tmp_path / "precious" / "file").write_text("stays")
        work.symlink_to(tmp_path / "precious")
        yard.later(8)
        collect(yard)
        assert not work.is_symlink()
        assert (tmp_path / "precious" / "file").read_text() == "stays"


def test_while_a_backup_holds_it_nothing_goes_until_it_is_released(tmp_path: Path) -> None:
    with open_yard(tmp_path) as yard:
        yard.end()
        yard.later(8)
        asyncio.run(yard.collector.hold("ada", "backup", 3600.0))
        with pytest.raises(Conflict, match="nothing is removed now"):
            collect(yard)
        assert asyncio.run(yard.collector.run_once()) <= 60
        assert kinds(plan(yard)) == ["work"]
        asyncio.run(yard.collector.release("ada"))
        assert kinds(collect(yard)) == ["work"]


def test_a_hold_that_nobody_released_ends_by_itself(tmp_path: Path) -> None:
    with open_yard(tmp_path) as yard:
        asyncio.run(yard.collector.hold("ada", "", 3600.0))
        yard.end()
        yard.later(8)
        assert kinds(collect(yard)) == ["work"]


def test_a_release_ends_the_holds_of_whom_it_is_and_no_other(tmp_path: Path) -> None:
    """A user may be named as what the console itself holds the collector for."""
    with open_yard(tmp_path) as yard:
        collector = yard.collector
        mine = [asyncio.run(collector.hold("ada", why, 3600.0)) for why in ("one", "two", "two")]
        other = asyncio.run(collector.hold("bob", "", 7200.0))
        now = yard.console.clock.now()
        own = Hold(id=new_hold_id("backup"), until=now + 60, by="backup", why="", by_console=True)
        yard.console.ledger.write_now(lambda c: add_hold(c, own, now))
        assert len({one.id for one in mine}) == 3
        asyncio.run(collector.release("backup"))
        asyncio.run(collector.release("ada", mine[1].id))
        assert {one.id for one in asyncio.run(collector.list_holds())} == {mine[0].id, mine[2].id, other.id, own.id}
        asyncio.run(collector.release("ada"))
        assert [one.id for one in asyncio.run(collector.list_holds())] == [other.id, own.id]
        with pytest.raises(Conflict, match="nothing is removed now"):
            collect(yard)


def test_holds_are_bounded_and_those_that_are_over_make_room(tmp_path: Path) -> None:
    with open_yard(tmp_path) as yard:
        for _ in range(MOST_HOLDS):
            asyncio.run(yard.collector.hold("ada", "", 3600.0))
        with pytest.raises(Conflict, match=r"held 100 times already"):
            asyncio.run(yard.collector.hold("ada", "", 3600.0))
        yard.later(1)
        asyncio.run(yard.collector.hold("ada", "", 3600.0))
        assert len(yard.console.ledger.read_now(lambda c: list_holds(c, 0.0))) == 1


def test_a_hold_of_an_older_release_stands_and_can_be_released(tmp_path: Path) -> None:
    with open_yard(tmp_path) as yard:
        until = yard.console.clock.now() + 60
        kept = json.dumps({"until": until, "by": "ada", "why": "upgrade"})
        yard.console.ledger.write_now(lambda c: add_fact(c, "retention_hold", kept))
        assert [one.by for one in asyncio.run(yard.collector.list_holds())] == ["ada"]
        asyncio.run(yard.collector.release("ada"))
        assert asyncio.run(yard.collector.find_hold()) is None


def test_without_its_storage_nothing_is_looked_at(tmp_path: Path) -> None:
    with open_yard(tmp_path) as yard:
        job, attempt = yard.end()
        yard.later(100)
        (tmp_path / "storage" / ".starforge-storage").unlink()
        with pytest.raises(StarForgeError, match="storage"):
            collect(yard)
        assert (yard.logs_dir / attempt).exists()
        assert yard.notes(job) == []


def test_what_cannot_be_removed_is_told_and_tried_again(tmp_path: Path) -> None:
    with open_yard(tmp_path) as yard:
        _, attempt = yard.end()
        root = yard.layout(attempt).root
        shutil.rmtree(root / "work")
        (root / "work").mkdir()
        (root / "work" / "held").mkdir()
        yard.later(8)

        class Refusing(type(yard.collector._parts.disk)):  # type: ignore[misc]  # the disk refuses, whoever asks
            __slots__ = ()

            def remove(self, one: Removal) -> None:
                raise PermissionError(1, "Operation not permitted", one.attempt)

        disk = yard.collector._parts.disk
        object.__setattr__(yard.collector._parts, "disk", Refusing(disk.storage, disk.logs_dir))
        first = collect(yard)
        assert (first.items, [error for _, error in first.failed]) == (
            [],
            [f"[Errno 1] Operation not permitted: '{attempt}'"],
        )
        object.__setattr__(yard.collector._parts, "disk", disk)
        assert kinds(collect(yard)) == ["work"]


def test_the_console_itself_collects_as_often_as_it_is_told(tmp_path: Path) -> None:
    with open_yard(tmp_path) as yard:
        _, attempt = yard.end()
        yard.later(8)
        assert asyncio.run(yard.collector.run_once()) == 3600.0
        assert not (yard.layout(attempt).root / "work").exists()
        last = asyncio.run(yard.collector.find_last_run())
        assert last is not None
        assert (last.by, last.removed) == ("", 1)


def test_a_ledger_that_a_pass_has_written_to_names_nothing_that_is_not_there(tmp_path: Path) -> None:
    with open_yard(tmp_path) as yard:
        for _ in range(3):
            yard.end(steps=(1, 2, 3, 4, 5))
        yard.later(91)
        collect(yard)
        ledger: Database = yard.console.ledger
        assert ledger.read_now(lambda c: list_unfinished(c, 10)) == []
