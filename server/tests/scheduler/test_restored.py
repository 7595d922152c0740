"""A console restored from an older backup meets machines that know more: nothing is ended, nothing is doubled."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from server.tests.databases import empty_place, open_database, place_of
from server.tests.scheduler.support import Site, open_site, run
from starforge.contract.ids import AttemptId, JobId
from starforge.contract.observation import NoSignal, Phase, Seen
from starforge.contract.states import JobState
from starforge_console.executors.scripting import FakeNode
from starforge_console.ledger.copying import copy_in, copy_out
from starforge_console.ledger.database import Database
from starforge_console.ledger.maintenance import begin_maintenance, find_maintenance
from starforge_console.ledger.restored import Newer, Restored, find_restored, mark_restored, note_newer
from starforge_console.ledger.views import list_events
from starforge_console.scheduler.sweep import Sweep


@asynccontextmanager
async def open_old(folder: Path, gpus: int = 8) -> AsyncIterator[Site]:
    open_database(folder, "series").close()  # a backup takes both
    async with open_site(folder, FakeNode(name="n1", gpus=gpus)) as site:
        yield site


def take(folder: Path) -> Path:
    """A backup of the ledger as it is now."""
    target = folder / "backup"
    target.mkdir()
    copy_out({schema: place_of(folder / f"{schema}.db") for schema in ("ledger", "series")}, target)
    return target / "ledger.db"


@asynccontextmanager
async def restored(site: Site, backup: Path, *newer: Newer) -> AsyncIterator[Site]:
    """The console of that backup, on the same machines and the same storage."""
    await site.die()
    now = site.clock.now()
    copied = Database(backup, "ledger")
    copied.write_now(lambda c: mark_restored(c, Restored(made_at=now - 60, at=now), "restored from a backup"))
    copied.write_now(lambda c: note_newer(c, newer))
    copied.close()
    place = empty_place(backup.parent / "again" / "ledger.db")
    backup.parent.joinpath("again").mkdir()
    copy_in(backup, place, "ledger")
    ledger = Database(place, "ledger")
    again = Site(ledger, site.clock, site.fleet, records=site.records)
    again.wakeups.bind()
    await again.restart()
    try:
        yield again
    finally:
        await again.die()
        ledger.close()


async def held(site: Site) -> dict[AttemptId, Phase]:
    found = await site.fleet.inventory()
    assert not isinstance(found, NoSignal)
    return {attempt: one.phase for attempt, one in found.items() if isinstance(one, Seen)}


async def note_of(site: Site, job: JobId) -> str:
    return (await site.job(job)).note


def test_a_job_that_was_started_since_is_held_and_what_runs_goes_on(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_old(tmp_path) as site:
            job, other = await site.submit(), await site.submit()
            backup = take(tmp_path)
            await site.dequeue()
            await site.reconcile()
            started = await held(site)
            assert len(started) == 2
            async with restored(site, backup) as again:
                for _ in range(3):
                    await again.dequeue()
                    await again.reconcile()
                assert await held(again) == started
                for one in (job, other):
                    assert await again.state(one) == ("PAUSED", "pause_requested")
                    assert "older than attempt 1 (fleet" in await note_of(again, one)
                assert await again.ledger.read(find_restored) is None
                assert await again.ledger.read(find_maintenance) is None

    run(work())


def test_its_next_attempt_has_a_number_of_its_own(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_old(tmp_path) as site:
            job = await site.submit()
            backup = take(tmp_path)
            await site.dequeue()
            await site.reconcile()
            first = await site.attempt(job)
            async with restored(site, backup) as again:
                await again.dequeue()
                await again.resume(job)
                for _ in range(2):
                    await again.dequeue()
                second = await again.attempt(job)
                assert (await again.attempts(job))[-1].number == 2
                assert {first, second} == set(await held(again))

    run(work())


def test_nothing_starts_while_a_machine_is_silent_and_the_queue_says_why(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_old(tmp_path) as site:
            backup = take(tmp_path)
            async with restored(site, backup) as again:
                job = await again.submit()
                again.fleet.make_unreachable()
                for _ in range(3):
                    await again.dequeue()
                assert await again.state(job) == ("QUEUED", "admitted")
                assert "restored from a backup" in await note_of(again, job)
                again.fleet.make_reachable()
                for _ in range(3):
                    await again.dequeue()
                await again.reconcile()
                assert (await again.job(job)).state == JobState.RUNNING

    run(work())


def test_a_retry_of_what_the_backup_saw_running_is_held_for_the_newer_attempt(tmp_path: Path) -> None:
    """The first attempt ended after the backup and a second one runs: the restored ledger hears of the first end."""

    async def work() -> None:
        async with open_old(tmp_path) as site:
            job, first = await site.running(retries=3)
            backup = take(tmp_path)
            site.end(first, code=1)
            await site.reconcile()
            site.clock.at += 3600
            await site.dequeue()
            await site.reconcile()
            second = await site.attempt(job)
            assert second != first
            async with restored(site, backup) as again:
                for _ in range(4):
                    await again.reconcile()
                    await again.dequeue()
                    again.clock.at += 3600
                assert (await again.job(job)).state == JobState.PAUSED
                assert (await held(again))[second] is Phase.RUNNING
                assert [one.number for one in await again.attempts(job)] == [1]
                assert "older than attempt 2" in await note_of(again, job)

    run(work())


def test_what_ran_and_ended_and_was_removed_since_is_known_by_its_folder(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_old(tmp_path) as site:
            job = await site.submit()
            backup = take(tmp_path)
            async with restored(site, backup, Newer(job, 3, "storage")) as again:
                for _ in range(3):
                    await again.dequeue()
                assert await again.state(job) == ("PAUSED", "pause_requested")
                assert "older than attempt 3 (storage)" in await note_of(again, job)
                assert await held(again) == {}
                events = await again.ledger.read(lambda c: list_events(c, job, limit=10))
                assert any("attempt 3" in event.note for event in events)

    run(work())


def test_what_ended_and_is_not_known_is_swept_only_once_everything_is_known(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_old(tmp_path) as site:
            backup = take(tmp_path)
            newer, attempt = await site.running()
            site.end(attempt)
            async with restored(site, backup) as again:
                sweep = Sweep(again.loops.deps)
                await sweep.run_once()
                assert set(await held(again)) == {attempt}
                await again.dequeue()
                await sweep.run_once()
                assert await held(again) == {}
                assert newer not in {one.id for one in await again.in_flight()}

    run(work())


def test_a_maintenance_of_an_administrator_outlasts_the_restore(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_old(tmp_path) as site:
            backup = take(tmp_path)
            async with restored(site, backup) as again:
                guard = again.loops.deps.guard()
                await again.ledger.write(lambda c: begin_maintenance(c, "ada", "her own", guard))
                await again.dequeue()
                found = await again.ledger.read(find_maintenance)
                assert found is not None
                assert found.by == "ada"
                assert await again.ledger.read(find_restored) is None

    run(work())
