"""What a launch's answer means, and what its absence means."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest
from sqlalchemy import Connection

from server.tests.scheduler.support import GatedFleet, open_site, run
from starforge.contract.ids import AttemptId
from starforge.contract.observation import Observation
from starforge.contract.states import JobState
from starforge.errors import LaunchError, LaunchRefused, NoCapacity, NodeFault, NotFound
from starforge_console.executors.scripting import FakeNode, Script
from starforge_console.ledger.database import Database

T = TypeVar("T")


@pytest.mark.parametrize(
    ("error", "state", "reason"),
    [
        (NoCapacity("somebody was faster"), JobState.QUEUED, "no_capacity"),
        (NodeFault("the storage is not mounted"), JobState.QUEUED, "node_fault"),
        (LaunchRefused("no such network here"), JobState.FAILED, "launch_refused"),
    ],
)
def test_a_launch_that_left_nothing_says_why_and_needs_no_fence(
    tmp_path: Path, error: LaunchError, state: JobState, reason: str
) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job = await site.submit(retries=3)
            site.fleet.refuse_next_launch(error)
            await site.dequeue()
            row = await site.job(job)
            assert (row.state, row.reason, row.note, row.retry_at) == (state, reason, str(error), None)
            assert site.fleet.calls("fence") == []
            assert site.fleet.starts == {}
            assert not [attempt for attempt in await site.attempts(job) if attempt.costs_retry]

    run(go())


def test_an_answer_that_was_lost_leaves_the_job_where_it_is_until_the_backend_is_asked(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job = await site.submit()
            site.fleet.lose_next_launch_reply()
            await site.dequeue()
            row = await site.job(job)
            assert row.state == JobState.SUBMITTED
            assert "waiting for n1" in row.note
            await site.reconcile()
            assert (await site.job(job)).state == JobState.RUNNING
            assert await site.reasons(job) == ["admitted", "dequeued", "launched", "started"]
            assert list(site.fleet.starts.values()) == [1]

    run(go())


def test_a_launch_that_did_not_arrive_is_fenced_before_another_is_made(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job = await site.submit()
            site.fleet.lose_next_launch_request()
            await site.dequeue()
            first = await site.attempt(job)
            await site.reconcile()
            assert await site.state(job) == (JobState.QUEUED, "node_fault")
            assert site.fleet.calls("fence") == [first]
            await site.dequeue()
            assert (await site.job(job)).attempt_number == 2

    run(go())


def test_a_launch_that_arrives_after_its_fence_starts_nothing(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job = await site.submit()
            site.fleet.hold_next_launch()
            await site.dequeue()
            first = await site.attempt(job)
            await site.reconcile()
            await site.dequeue()
            await site.reconcile()
            second = await site.attempt(job)
            assert [type(error) for error in site.fleet.deliver()] == [LaunchRefused]
            assert site.fleet.starts == {second: 1}
            assert first not in site.fleet.starts

    run(go())


def test_without_an_answer_to_the_fence_the_job_waits(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job = await site.submit()
            site.fleet.lose_next_launch_request()
            await site.dequeue()
            site.fleet.make_unreachable("n1 is away")
            for _ in range(5):
                site.clock.at += 10_000
                await site.reconcile()
                await site.dequeue()
                assert (await site.job(job)).state == JobState.SUBMITTED
            assert (await site.job(job)).note == "waiting for n1: n1 is away"
            site.fleet.make_reachable()
            await site.reconcile()
            assert (await site.job(job)).state == JobState.QUEUED

    run(go())


def test_a_failure_that_nobody_foresaw_leaves_the_launch_to_the_fence(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            for error in (NotFound("there is no spec"), ZeroDivisionError()):
                job = await site.submit()
                site.assembly.errors.append(error)
                await site.dequeue()
                assert (await site.job(job)).state == JobState.SUBMITTED
                await site.reconcile()
                assert await site.state(job) == (JobState.QUEUED, "node_fault")
                await site.dequeue()
                assert (await site.job(job)).state == JobState.PENDING

    run(go())


def test_a_job_whose_fleet_nobody_serves_any_more_waits_and_says_so(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job, _ = await site.running()
            site.loops.deps.executors.clear()  # type: ignore[attr-defined]  # the dict that this test put there
            await site.reconcile()
            row = await site.job(job)
            assert (row.state, row.note) == (JobState.RUNNING, "no executor serves fleet lab")

    run(go())


def test_a_launch_under_way_is_left_alone_by_reconcile(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job = await site.submit()
            site.fleet.before_launch.is_closed = True
            await site.loops.dequeue.run_once()
            await site.fleet.before_launch.reached.wait()
            for _ in range(3):
                await site.reconcile()
            assert (await site.job(job)).state == JobState.SUBMITTED
            assert site.fleet.calls("fence") == []
            site.fleet.before_launch.opened.set()
            await site.loops.settle_launches()
            await site.reconcile()
            assert (await site.job(job)).state == JobState.RUNNING

    run(go())


class InterruptedLedger(Database):
    """A ledger whose writes let a pass of reconcile in between their commit and their answer."""

    interrupt: Callable[[], Awaitable[object]] | None = None

    async def write(self, work: Callable[[Connection], T]) -> T:
        answer = await super().write(work)
        if self.interrupt is not None:
            interrupt, self.interrupt = self.interrupt, None
            await interrupt()
            self.interrupt = interrupt
        return answer


def test_reconcile_does_not_fence_a_job_between_its_dequeue_and_its_launch(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, ledger_kind=InterruptedLedger) as site:
            assert isinstance(site.ledger, InterruptedLedger)
            job = await site.submit()
            site.ledger.interrupt = site.reconcile
            await site.dequeue()
            assert site.fleet.calls("fence") == []
            row = await site.job(job)
            assert (row.state, row.attempt_number) == (JobState.RUNNING, 1)

    run(go())


def test_a_slow_machine_holds_up_no_other(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, FakeNode(name="n1", gpus=1), FakeNode(name="n2", gpus=1)) as site:
            slow = await site.submit()
            site.fleet.before_launch.is_closed = True
            await site.loops.dequeue.run_once()
            await site.fleet.before_launch.reached.wait()
            site.fleet.before_launch.is_closed = False
            quick = await site.submit()
            await site.loops.dequeue.run_once()
            await site.wait_for(quick, JobState.PENDING)
            assert (await site.job(slow)).state == JobState.SUBMITTED
            site.fleet.before_launch.opened.set()
            await site.loops.settle_launches()

    run(go())


def test_an_attempt_that_never_starts_is_closed_off_and_run_again_at_no_cost(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, script=Script(prepare_steps=None)) as site:
            job = await site.submit()
            await site.dequeue()
            first = await site.attempt(job)
            site.clock.at += 299
            await site.reconcile()
            assert (await site.job(job)).state == JobState.PENDING
            site.clock.at += 2
            await site.reconcile()
            assert await site.state(job) == (JobState.FAILED, "node_fault")
            assert site.fleet.calls("fence") == [first]
            await site.dequeue()
            assert (await site.job(job)).attempt_number == 2
            assert [attempt.costs_retry for attempt in await site.attempts(job)] == [False, False]

    run(go())


class LateFence(GatedFleet):
    """A fleet whose backend goes away between the look and the fence."""

    async def fence(self, attempt: AttemptId) -> Observation:
        self.make_unreachable("gone away in between")
        return await super().fence(attempt)


def test_a_closed_door_that_was_not_confirmed_moves_nothing(tmp_path: Path) -> None:
    async def go() -> None:
        script = Script(prepare_steps=None)
        async with open_site(tmp_path, script=script, fleet_kind=LateFence) as site:
            job = await site.submit()
            await site.dequeue()
            site.clock.at += 10_000
            await site.reconcile()
            assert site.fleet.calls("fence") == [await site.attempt(job)]
            assert (await site.job(job)).state == JobState.PENDING

    run(go())
