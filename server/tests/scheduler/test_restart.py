"""A console that dies at any point and comes back loses no job and starts nothing twice."""

import dataclasses
from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path

import pytest

from server.tests.scheduler.support import FLEET, GatedFleet, Site, open_site, run
from starforge.contract.ids import AttemptId, JobId
from starforge.contract.observation import NoSignal
from starforge.contract.states import JobState
from starforge.errors import BackendUnreachable
from starforge_console.executors.scripting import FakeNode, Script
from starforge_console.ledger.in_flight import lease_submitted, list_in_flight

Point = Callable[[Site], Awaitable[JobId]]


async def _between_dequeue_and_launch(site: Site) -> JobId:
    job = await site.submit()
    site.fleet.before_launch.is_closed = True
    await site.loops.dequeue.run_once()
    await site.fleet.before_launch.reached.wait()
    return job


async def _before_the_answer_is_heard(site: Site) -> JobId:
    job = await site.submit()
    site.fleet.after_launch.is_closed = True
    await site.loops.dequeue.run_once()
    await site.fleet.after_launch.reached.wait()
    return job


async def _after_the_reply_was_lost(site: Site) -> JobId:
    job = await site.submit()
    site.fleet.lose_next_launch_reply()
    await site.dequeue()
    return job


async def _after_the_request_was_lost(site: Site) -> JobId:
    job = await site.submit()
    site.fleet.lose_next_launch_request()
    await site.dequeue()
    return job


async def _while_the_request_is_on_its_way(site: Site) -> JobId:
    job = await site.submit()
    site.fleet.hold_next_launch()
    await site.dequeue()
    return job


async def _pending(site: Site) -> JobId:
    job = await site.submit()
    await site.dequeue()
    return job


async def _running(site: Site) -> JobId:
    job, _ = await site.running()
    return job


async def _exited_and_not_seen(site: Site) -> JobId:
    job, attempt = await site.running()
    site.end(attempt)
    return job


async def _ended_and_not_cleaned_up(site: Site) -> JobId:
    job, attempt = await site.running()
    site.end(attempt)
    await site.reconcile()
    return job


POINTS: list[Point] = [
    _between_dequeue_and_launch,
    _before_the_answer_is_heard,
    _after_the_reply_was_lost,
    _after_the_request_was_lost,
    _while_the_request_is_on_its_way,
    _pending,
    _running,
    _exited_and_not_seen,
    _ended_and_not_cleaned_up,
]


@pytest.mark.parametrize("point", POINTS, ids=lambda point: point.__name__.strip("_"))
def test_a_job_ends_once_whatever_moment_the_console_dies_at(tmp_path: Path, point: Point) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job = await point(site)
            await site.die()
            for gate in (site.fleet.before_launch, site.fleet.after_launch):
                gate.is_closed = False
            scheduler = site.begin_scheduler()
            await scheduler.start()
            try:
                row = await site.wait_for(job, JobState.RUNNING, JobState.SUCCEEDED)
                site.fleet.deliver()
                if row.state == JobState.RUNNING:
                    site.end(await site.attempt(job))
                assert (await site.wait_for(job, JobState.SUCCEEDED)).reason == "exited_zero"
            finally:
                await scheduler.close()
            assert list(site.fleet.starts.values()) == [1], "one container in all"
            while (await site.cleanup()) < 1.0:
                pass
            assert await site.fleet.inventory() == {}

    run(go())


@pytest.mark.parametrize("point", POINTS[:-2], ids=lambda point: point.__name__.strip("_"))
def test_a_stop_that_was_acknowledged_before_the_console_died_is_carried_out_after_it(
    tmp_path: Path, point: Point
) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job = await point(site)
            await site.stop(job)
            await site.die()
            scheduler = site.begin_scheduler()
            await scheduler.start()
            try:
                await site.wait_for(job, JobState.STOPPED)
            finally:
                await scheduler.close()
            site.fleet.deliver()
            assert sum(site.fleet.starts.values()) <= 1
            assert (await site.job(job)).attempt_number == 1

    run(go())


def test_a_console_that_starts_while_its_backend_is_away_changes_nothing_until_it_answers(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job, attempt = await site.running()
            site.fleet.make_unreachable("n1 is away")
            await site.die()
            scheduler = site.begin_scheduler()
            await scheduler.start()
            try:
                assert (await site.job(job)).state == JobState.RUNNING
                site.end(attempt)
                site.fleet.make_reachable()
                await site.wait_for(job, JobState.SUCCEEDED)
            finally:
                await scheduler.close()
            assert site.fleet.starts == {attempt: 1}

    run(go())


def test_the_leases_of_a_dead_process_keep_nobody_out(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job = await _between_dequeue_and_launch(site)
            held = (await site.ledger.read(list_in_flight))[0]
            now = site.clock.now()
            assert await site.ledger.write(lambda c: lease_submitted(c, held.id, "other", 9e9, now)) is None
            site.fleet.before_launch.is_closed = False
            await site.restart()
            assert (await site.job(job)).state == JobState.QUEUED

    run(go())


def test_what_the_ledger_does_not_know_is_swept_once_it_ended_and_left_while_it_runs(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, FakeNode(name="n1", gpus=4)) as site:
            _, running = await site.running()
            _, ended = await site.running()
            site.end(ended)
            held = await site.in_flight()
            strange_running, strange_ended = AttemptId("jaaaaaaaaa-1-abcdef"), AttemptId("jaaaaaaaab-1-abcdef")
            for strange in (strange_running, strange_ended):
                await _start_unknown(site, strange)
            site.fleet.finish(strange_ended)
            assert len(held) == 2
            await site.die()
            scheduler = site.begin_scheduler(container_retention_s=3_600.0)
            await scheduler.start()
            await scheduler.close()
            left = await site.fleet.inventory()
            assert not isinstance(left, NoSignal)
            assert set(left) == {running, ended, strange_running}

    run(go())


async def _start_unknown(site: Site, attempt: AttemptId) -> None:
    held = (await site.in_flight())[0]
    request = await site.assembly.prepare(held)
    await site.fleet.launch(
        dataclasses.replace(request, attempt=attempt), dataclasses.replace(held.attempt.target, name=attempt)
    )


class HalfDeadFleet(GatedFleet):
    """A backend that answers the first question and then no more."""

    async def sweep(self, known: Collection[AttemptId]) -> Sequence[str]:
        raise BackendUnreachable(f"it went away before {len(known)} attempts were compared")


def test_a_backend_that_goes_away_during_the_recovery_does_not_keep_the_console_from_starting(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, fleet_kind=HalfDeadFleet) as site:
            job = await site.submit()
            scheduler = site.begin_scheduler()
            await scheduler.start()
            try:
                await site.wait_for(job, JobState.RUNNING)
            finally:
                await scheduler.close()

    run(go())


def test_a_pull_that_outlives_the_console_is_found_again(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, script=Script(prepare_steps=None, pull_bytes=10)) as site:
            job = await site.submit()
            site.fleet.lose_next_launch_reply()
            await site.dequeue()
            await site.restart()
            assert await site.state(job) == (JobState.PENDING, "launched")
            assert site.fleet.calls("fence") == []
            site.fleet.begin(await site.attempt(job))
            await site.reconcile()
            assert (await site.job(job)).state == JobState.RUNNING

    run(go())


def test_a_container_that_was_made_and_never_started_is_closed_off_and_made_anew(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, script=Script(prepare_steps=None)) as site:
            job = await site.submit()
            site.fleet.lose_next_launch_reply()
            await site.dequeue()
            first = await site.attempt(job)
            await site.restart()
            assert site.fleet.calls("fence") == [first]
            assert await site.state(job) == (JobState.QUEUED, "node_fault")
            assert await site.fleet.inventory() == {}

    run(go())


def test_the_fleet_of_the_restarted_console_is_the_one_it_looks_at_before_it_places(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            site.views.clear()
            scheduler = site.begin_scheduler()
            await scheduler.start()
            await scheduler.close()
            assert [view.fleet for view in site.views[0]] == [FLEET]

    run(go())
