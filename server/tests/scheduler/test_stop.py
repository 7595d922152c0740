"""A stop is a wish that is carried out: whatever the job is doing, and however long its backend is away."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from sqlalchemy import Connection

from server.tests.scheduler.support import GatedFleet, Site, make_record, open_site, run
from starforge.contract.ids import AttemptId, JobId
from starforge.contract.observation import Failure, Observation, Phase, Seen
from starforge.contract.states import JobState
from starforge_console.executors.scripting import FakeNode, Script
from starforge_console.ledger.database import Database

T = TypeVar("T")
STOPPED = (JobState.STOPPED, "stop_confirmed")


def test_a_running_job_is_told_in_two_ways_and_ends_as_stopped(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job, attempt = await site.running(retries=3)
            await site.stop(job)
            await site.reconcile()
            assert site.assembly.told == [(attempt, "stop")]
            assert site.fleet.calls("stop") == [attempt]
            await site.reconcile()
            assert await site.state(job) == STOPPED
            assert (await site.job(job)).retry_at is None

    run(go())


def test_a_stop_is_repeated_each_round_with_what_is_left_of_the_grace_then_the_backend_kills(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, script=Script(stop_steps=None)) as site:
            job, attempt = await site.running()
            await site.stop(job, 30.0)
            for _ in range(4):
                assert await site.reconcile() == 2.0
                site.clock.at += 10
                site.fleet.advance()
            assert site.fleet.calls("stop") == [attempt] * 4
            assert (await site.job(job)).state == JobState.RUNNING
            site.clock.at += 10
            site.fleet.advance()
            await site.reconcile()
            assert await site.state(job) == STOPPED

    run(go())


def test_a_clock_that_is_set_back_gives_a_stop_no_more_time(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, script=Script(stop_steps=None)) as site:
            job, _ = await site.running()
            await site.stop(job, 30.0)
            site.clock.at += 10
            await site.reconcile()
            site.clock.at -= 7200
            await site.reconcile()
            await site.stop(job, 600.0)
            await site.reconcile()
            assert site.assembly.graces == [20.0, 30.0, 30.0]

    run(go())


def test_a_stop_while_the_image_is_pulled_ends_it_in_one_round(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, script=Script(prepare_steps=None, pull_bytes=10)) as site:
            job = await site.submit()
            await site.dequeue()
            attempt = await site.attempt(job)
            await site.reconcile()
            assert (await site.job(job)).state == JobState.PENDING
            await site.stop(job)
            await site.reconcile()
            assert await site.state(job) == STOPPED
            assert site.fleet.starts == {}
            assert site.fleet.calls("fence") == [attempt]

    run(go())


class QuickStart(GatedFleet):
    """A fleet whose attempts start just before their fence arrives."""

    async def fence(self, attempt: AttemptId) -> Observation:
        self.begin(attempt)
        return await super().fence(attempt)


def test_a_stop_that_finds_the_attempt_started_after_all_is_confirmed_only_by_its_end(tmp_path: Path) -> None:
    async def go() -> None:
        script = Script(prepare_steps=None, pull_bytes=10, stop_steps=None)
        async with open_site(tmp_path, script=script, fleet_kind=QuickStart) as site:
            job = await site.submit()
            await site.dequeue()
            attempt = await site.attempt(job)
            await site.stop(job)
            await site.reconcile()
            assert (await site.job(job)).state == JobState.PENDING
            assert site.fleet.calls("stop") == [attempt]
            site.fleet.finish(attempt, 143)
            await site.reconcile()
            assert await site.state(job) == STOPPED

    run(go())


def test_a_stop_while_a_launch_is_under_way_stops_what_it_started(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job = await site.submit()
            site.fleet.before_launch.is_closed = True
            await site.loops.dequeue.run_once()
            await site.fleet.before_launch.reached.wait()
            await site.stop(job)
            await site.reconcile()
            assert (await site.job(job)).state == JobState.SUBMITTED
            site.fleet.before_launch.opened.set()
            await site.loops.settle_launches()
            await _reconcile_until_ended(site, job)
            assert await site.state(job) == STOPPED
            assert (await site.job(job)).attempt_number == 1

    run(go())


def test_a_stop_before_the_launch_has_begun_starts_nothing(tmp_path: Path) -> None:
    class Wishing(Database):
        """The wish comes while the dequeue is written."""

        site: Site | None = None

        async def write(self, work: Callable[[Connection], T]) -> T:
            answer = await super().write(work)
            site, self.site = self.site, None
            if site is not None:
                await site.stop((await site.in_flight())[0].id)
            return answer

    async def go() -> None:
        async with open_site(tmp_path, ledger_kind=Wishing) as site:
            job = await site.submit()
            assert isinstance(site.ledger, Wishing)
            site.ledger.site = site
            await site.dequeue()
            assert await site.state(job) == STOPPED
            assert site.fleet.calls("launch") == []
            assert site.fleet.starts == {}

    run(go())


@pytest.mark.parametrize("lost", ["reply", "request", "held"])
def test_a_stop_of_a_launch_whose_answer_was_lost_is_confirmed_only_by_the_backend(tmp_path: Path, lost: str) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job = await site.submit()
            {
                "reply": site.fleet.lose_next_launch_reply,
                "request": site.fleet.lose_next_launch_request,
                "held": site.fleet.hold_next_launch,
            }[lost]()
            await site.dequeue()
            await site.stop(job)
            site.fleet.make_unreachable()
            await site.reconcile()
            assert (await site.job(job)).state == JobState.SUBMITTED
            site.fleet.make_reachable()
            await _reconcile_until_ended(site, job)
            assert await site.state(job) == STOPPED
            site.fleet.deliver()
            assert await _living(site, job) == []

    run(go())


@pytest.mark.parametrize("phase", ["pending", "running"])
def test_a_wish_that_comes_while_nobody_answers_is_carried_out_when_somebody_does(tmp_path: Path, phase: str) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job = await site.submit()
            await site.dequeue()
            if phase == "running":
                await site.reconcile()
            site.fleet.make_unreachable("n1 is away")
            await site.stop(job, 1.0)
            before = await site.job(job)
            for _ in range(5):
                site.clock.at += 3_600
                await site.reconcile()
            after = await site.job(job)
            assert (after.state, after.reason, after.desired) == (before.state, before.reason, "stop")
            assert "waiting for n1" in after.note
            site.fleet.make_reachable()
            await _reconcile_until_ended(site, job)
            assert await site.state(job) == STOPPED

    run(go())


def test_the_note_of_a_stop_that_waits_stays_the_same(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job, _ = await site.running()
            site.fleet.make_unreachable("n1 is away")
            await site.stop(job)
            notes = set()
            for _ in range(4):
                await site.reconcile()
                notes.add((await site.job(job)).note)
            assert notes == {"waiting for n1 to carry out the stop: n1 is away"}

    run(go())


def test_a_queued_job_stops_at_once_and_is_never_placed(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job = await site.submit()
            await site.stop(job)
            await site.dequeue()
            assert await site.state(job) == (JobState.STOPPED, "stop_requested")
            assert site.fleet.calls("launch") == []

    run(go())


def test_a_job_that_ended_by_itself_before_the_wish_reached_it_keeps_its_end(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job, attempt = await site.running()
            site.end(attempt)
            await site.stop(job)
            await site.reconcile()
            assert await site.state(job) == (JobState.SUCCEEDED, "exited_zero")
            await site.stop(job)
            assert (await site.job(job)).state == JobState.SUCCEEDED

    run(go())


def test_a_stopped_job_that_fails_on_its_way_out_is_not_run_again(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job, attempt = await site.running(retries=3)
            site.fleet.finish(attempt, 1)
            await site.stop(job)
            await site.reconcile()
            assert await site.state(job) == (JobState.FAILED, "exited_nonzero")
            site.clock.at += 10_000
            await site.dequeue()
            assert (await site.job(job)).state == JobState.FAILED

    run(go())


def test_a_stop_takes_back_a_retry_that_is_planned(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job, attempt = await site.running(retries=3)
            site.end(attempt, 1)
            await site.reconcile()
            assert (await site.job(job)).retry_at is not None
            await site.stop(job)
            site.clock.at += 10_000
            await site.dequeue()
            assert (await site.job(job)).state == JobState.FAILED
            assert len(await site.attempts(job)) == 1

    run(go())


def test_an_attempt_of_a_stopped_job_that_is_gone_without_a_trace_is_confirmed_half_a_minute_later(
    tmp_path: Path,
) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job, attempt = await site.running()
            await site.stop(job)
            site.fleet.vanish(attempt)
            await site.reconcile()
            assert (await site.job(job)).state == JobState.RUNNING
            site.clock.at += 31
            await site.reconcile()
            assert await site.state(job) == STOPPED

    run(go())


def test_what_cannot_be_written_for_the_runner_does_not_keep_the_backend_from_stopping_it(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job, attempt = await site.running()
            other, _ = await site.running()
            site.assembly.tell_errors[attempt] = IsADirectoryError(21, "a folder lies in its place", "control.json")
            await site.stop(job)
            await site.stop(other)
            await site.reconcile()
            await site.reconcile()
            assert await site.state(job) == STOPPED
            assert await site.state(other) == STOPPED

    run(go())


class DyingMachine(GatedFleet):
    """A machine that goes away when it is told to stop something."""

    async def stop(self, attempt: AttemptId, remaining_s: float) -> None:
        self.make_unreachable("it went away just now")
        await super().stop(attempt, remaining_s)


def test_a_stop_that_did_not_arrive_is_not_counted_as_sent(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, fleet_kind=DyingMachine) as site:
            job, attempt = await site.running()
            await site.stop(job)
            await site.reconcile()
            assert (await site.in_flight())[0].attempt.stop_sent_at is None
            site.fleet.make_reachable()
            site.fleet.finish(attempt, 3)
            await site.reconcile()
            assert await site.state(job) == (JobState.FAILED, "exited_nonzero")

    run(go())


def test_a_start_that_failed_by_our_own_stop_is_a_stop(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, FakeNode(name="n1"), script=Script(prepare_steps=None)) as site:
            job = await site.submit()
            await site.dequeue()
            attempt = await site.attempt(job)
            await site.stop(job)
            site.fleet.fail(attempt, Failure.NODE_FAULT)
            await site.reconcile()
            assert await site.state(job) == STOPPED

    run(go())


def test_a_record_that_saw_the_wish_makes_the_end_a_stop(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job, attempt = await site.running()
            site.records.exits[attempt] = make_record(attempt, 0, site.clock.now(), desired="stop")
            site.fleet.finish(attempt, 0)
            await site.stop(job)
            await site.reconcile()
            assert await site.state(job) == STOPPED

    run(go())


async def _reconcile_until_ended(site: Site, job: JobId) -> None:
    for _ in range(6):
        await site.reconcile()
        if (await site.job(job)).state in {JobState.STOPPED, JobState.FAILED, JobState.SUCCEEDED}:
            return
        site.clock.at += 31
    raise AssertionError(await site.job(job))


async def _living(site: Site, job: JobId) -> list[AttemptId]:
    held = await site.fleet.observe([AttemptId(attempt.id) for attempt in await site.attempts(job)])
    return [a for a, seen in held.items() if isinstance(seen, Seen) and seen.phase is not Phase.EXITED]
