"""An ended attempt is read to its end, kept for a while, then removed."""

import dataclasses
from pathlib import Path

from server.tests.scheduler.support import Loops, Site, open_site, run
from starforge.contract.ids import AttemptId
from starforge.contract.states import JobState
from starforge.errors import Busy, NotFound
from starforge_console.ledger.endings import list_known, list_unclean


async def _ended(site: Site) -> AttemptId:
    _, attempt = await site.running()
    site.end(attempt)
    await site.reconcile()
    return attempt


def test_it_is_read_first_and_removed_when_it_has_been_kept_long_enough(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            site.loops = Loops(dataclasses.replace(site.loops.deps, container_retention_s=60.0, reconcile_s=1_000.0))
            attempt = await _ended(site)
            assert await site.cleanup() == 60.0
            assert site.records.finalised == [attempt]
            assert site.fleet.calls("cleanup") == []
            site.clock.at += 59
            assert await site.cleanup() == 1.0
            assert site.fleet.calls("cleanup") == []
            site.clock.at += 1
            await site.cleanup()
            assert site.fleet.calls("cleanup") == [attempt]
            assert site.records.finalised == [attempt]
            assert await site.ledger.read(list_unclean) == []
            assert await site.ledger.read(list_known) == set()

    run(go())


def test_it_is_not_removed_before_it_was_read(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            attempt = await _ended(site)
            site.records.errors += [OSError(5, "Input/output error"), NotFound("not there")]
            for _ in range(2):
                await site.cleanup()
                assert site.fleet.calls("cleanup") == []
            await site.cleanup()
            assert site.records.finalised == [attempt]
            assert site.fleet.calls("cleanup") == [attempt]

    run(go())


def test_a_spool_that_was_read_in_part_is_read_on_soon(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            site.loops = Loops(dataclasses.replace(site.loops.deps, reconcile_s=1_000.0))
            attempt = await _ended(site)
            site.records.errors += [Busy("read in part", retry_after_s=0.5)]
            assert await site.cleanup() == 0.5
            assert site.records.finalised == []
            await site.cleanup()
            assert site.records.finalised == [attempt]

    run(go())


def test_a_backend_that_is_away_is_asked_again_and_the_reading_is_not_repeated(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            attempt = await _ended(site)
            site.fleet.make_unreachable()
            for _ in range(3):
                await site.cleanup()
            assert [one.id for one in await site.ledger.read(list_unclean)] == [attempt]
            site.fleet.make_reachable()
            await site.cleanup()
            assert await site.ledger.read(list_unclean) == []
            assert site.records.finalised == [attempt]

    run(go())


def test_one_bad_attempt_holds_up_no_other(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            first = await _ended(site)
            site.clock.at += 1
            second = await _ended(site)
            site.records.errors.append(OSError(5, "Input/output error"))
            await site.cleanup()
            assert site.fleet.calls("cleanup") == [second]
            await site.cleanup()
            assert site.fleet.calls("cleanup") == [second, first]

    run(go())


def test_what_a_job_in_flight_names_is_left_alone(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job, attempt = await site.running(retries=1)
            await site.cleanup()
            assert site.records.finalised == []
            site.end(attempt, 1)
            await site.reconcile()
            site.clock.at += 5
            await site.dequeue()
            await site.reconcile()
            second = await site.attempt(job)
            await site.cleanup()
            assert site.records.finalised == [attempt]
            assert site.fleet.calls("cleanup") == [attempt]
            assert (await site.job(job)).state == JobState.RUNNING
            assert second in (await site.ledger.read(list_known))

    run(go())
