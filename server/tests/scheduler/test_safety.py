"""Whatever fails, in whatever order: nothing runs twice, nothing is lost, and a stop that was taken is carried out."""

import asyncio
import contextlib
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from sqlalchemy import select

from server.tests.scheduler.support import GatedFleet, Site, open_site
from starforge.contract.ids import AttemptId, JobId, job_of
from starforge.contract.observation import Observation, Phase
from starforge.contract.states import ENDED, HOLDS_A_PLACE, JobState
from starforge.errors import LaunchError, LaunchRefused, NoCapacity, NodeFault
from starforge_console.executors.scripting import FakeNode, Script
from starforge_console.ledger.tables import attempts, jobs

T = TypeVar("T")
SCRIPTS = [Script()] * 2
SCRIPTS += [Script(prepare_steps=None), Script(prepare_steps=2, pull_bytes=10), Script(stop_steps=None)]
FAULTS: list[str | type[LaunchError]] = ["none", "none", "none", "none", "none", "none"]
FAULTS += ["reply lost", "request lost", "on its way", "machine lost", NoCapacity, NodeFault, LaunchRefused]
MOST_JOBS = 8


class WatchedFleet(GatedFleet):
    """Remembers how often each attempt had been started when it was first fenced."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.starts_at_fence: dict[AttemptId, int] = {}

    async def fence(self, attempt: AttemptId) -> Observation:
        answer = await super().fence(attempt)
        if attempt in self._fences:
            self.starts_at_fence.setdefault(attempt, self.starts.get(attempt, 0))
        return answer

    def living(self) -> list[AttemptId]:
        """What is preparing or runs, whether it answers or not."""
        return [attempt for living in self._living.values() for attempt in living]

    def at(self, phase: Phase) -> list[AttemptId]:
        return [attempt for attempt, held in self._attempts.items() if held.phase is phase]


class AnyOrder(RuleBasedStateMachine):
    """One console, two small machines, and every fault that a fleet in memory knows.

    Loops that run at once meet in an order that nobody chooses, so no rule depends on what is there: it is always
    allowed, and does nothing where there is nothing to do.
    """

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.stack = contextlib.AsyncExitStack()
        self.folder = self.stack.enter_context(tempfile.TemporaryDirectory())
        nodes = (FakeNode(name="n1", gpus=2), FakeNode(name="n2", gpus=1))
        site = open_site(Path(self.folder), *nodes, fleet_kind=WatchedFleet)
        self.site: Site = self.do(self.stack.enter_async_context(site))
        assert isinstance(self.site.fleet, WatchedFleet)
        self.fleet = self.site.fleet
        self.is_away = False
        self.submitted: list[JobId] = []
        self.stopped_at: dict[JobId, int] = {}
        self.succeeded: set[JobId] = set()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    # What people do.

    @initialize(script=st.sampled_from(SCRIPTS))
    def begin_with_three_jobs(self, script: Script) -> None:
        for retries in (0, 1, 2):
            self.submit(retries, script)

    @rule(retries=st.integers(0, 2), script=st.sampled_from(SCRIPTS))
    def submit(self, retries: int, script: Script) -> None:
        if len(self.submitted) == MOST_JOBS:
            return
        self.site.clock.at += 1.0  # the order of the queue is the order of the submits
        self.fleet.default_script = script
        self.submitted.append(self.do(self.site.submit(retries)))

    @rule(choice=st.integers(0, 2 * MOST_JOBS), grace_s=st.sampled_from([0.0, 30.0]))
    def stop(self, choice: int, grace_s: float) -> None:
        if choice >= len(self.submitted):
            return
        job = self.submitted[choice]
        row = self.do(self.site.job(job))
        if row.state != JobState.SUCCEEDED and (row.state not in ENDED or row.retry_at is not None):
            self.stopped_at.setdefault(job, row.attempt_number)
        self.do(self.site.stop(job, grace_s))

    # What the console does, one loop at a time or all at once.

    @rule(fault=st.sampled_from(FAULTS))
    def dequeue(self, fault: str | type[LaunchError]) -> None:
        self.arm(fault)
        self.do(self.site.dequeue())
        if fault == "machine lost":
            self.fleet.make_unreachable()
            self.is_away = True

    def arm(self, fault: str | type[LaunchError]) -> None:
        """Let `fault` befall the next launch."""
        match fault:
            case "none":
                pass
            case "reply lost" | "machine lost":
                self.fleet.lose_next_launch_reply()
            case "request lost":
                self.fleet.lose_next_launch_request()
            case "on its way":
                self.fleet.hold_next_launch()
            case str():
                raise AssertionError(fault)
            case error:
                self.fleet.refuse_next_launch(error("as the test wants it"))

    @rule(pause_s=st.sampled_from([0.0, 10.0, 40.0]), times=st.integers(1, 3))
    def reconcile(self, pause_s: float, times: int) -> None:
        for _ in range(times):
            before = self.do(self._table())
            self.do(self.site.reconcile())
            if self.is_away:
                assert self.do(self._table()) == before, "silence changes nothing"
            self.site.clock.at += pause_s

    @rule(fault=st.sampled_from(FAULTS), pause_s=st.sampled_from([0.0, 40.0]))
    def dequeue_and_reconcile(self, fault: str | type[LaunchError], pause_s: float) -> None:
        self.dequeue(fault)
        self.reconcile(pause_s, 1)

    @rule(stop_too=st.booleans())
    def everything_at_once(self, *, stop_too: bool) -> None:
        async def together() -> None:
            parts = [self.site.loops.dequeue.run_once(), self.site.reconcile(), self.site.reconcile()]
            parts += [self.site.loops.dequeue.run_once(), self.site.cleanup()]
            wish = [self.site.stop(self.submitted[-1])] if stop_too and self.submitted else []
            await asyncio.gather(*parts, *wish)
            await self.site.loops.settle_launches()

        if stop_too and self.submitted:
            self.stopped_at.setdefault(self.submitted[-1], MANY)
        self.do(together())

    @rule(how=st.sampled_from(["clean up", "time passes", "restart", "die while launching"]))
    def what_happens_now_and_then(self, how: str) -> None:
        match how:
            case "clean up":
                self.do(self.site.cleanup())
            case "time passes":
                self.site.clock.at += 400.0
            case "restart":
                self.do(self.site.restart())
            case _:
                self.do(self._die_while_launching())

    async def _die_while_launching(self) -> None:
        await self.site.loops.dequeue.run_once()
        await self.site.die()  # wherever the launches are by now
        await self.site.restart()

    # What machines do.

    @rule(how=st.sampled_from(["go on", "start", "vanish", "lose the exit", "restart", "get what was on its way"]))
    def machines_work(self, how: str) -> None:
        preparing, running = self.fleet.at(Phase.PREPARING), self.fleet.at(Phase.RUNNING)
        match how:
            case "start" if preparing:
                self.fleet.begin(preparing[0])
            case "vanish" if running:
                self.fleet.vanish(running[0])
            case "lose the exit":
                self.fleet.restart_engine(code=255)
            case "restart":
                self.fleet.restart_engine()
            case "get what was on its way":
                self.fleet.deliver()
            case _:
                self.fleet.advance()

    @rule(code=st.sampled_from([0, 0, 1]), leaves_record=st.booleans())
    def an_attempt_ends(self, code: int, *, leaves_record: bool) -> None:
        for attempt in self.fleet.at(Phase.RUNNING)[:1]:
            if leaves_record:
                self.site.end(attempt, code)
            else:
                self.fleet.finish(attempt, code)

    @rule(goes=st.sampled_from([True, False, False]))
    def the_fleet_comes_back_or_goes_away(self, *, goes: bool) -> None:
        if goes and not self.is_away:
            self.fleet.make_unreachable()
        elif self.is_away:
            self.fleet.make_reachable()
        self.is_away = goes and not self.is_away

    # What holds at every moment.

    @invariant()
    def no_attempt_starts_twice(self) -> None:
        assert all(count == 1 for count in self.fleet.starts.values()), self.fleet.starts

    @invariant()
    def no_job_has_two_attempts_alive(self) -> None:
        owners = [job_of(attempt) for attempt in self.fleet.living()]
        assert len(owners) == len(set(owners)), self.fleet.living()

    @invariant()
    def nothing_starts_after_its_fence(self) -> None:
        for attempt, starts in self.fleet.starts_at_fence.items():
            assert self.fleet.starts.get(attempt, 0) == starts, attempt

    @invariant()
    def no_job_is_lost_and_success_is_final_and_what_lives_belongs_to_a_job_in_flight(self) -> None:
        rows = self.do(self._table())
        assert {job for job, *_ in rows} == set(self.submitted)
        now = {job for job, state, *_ in rows if state == JobState.SUCCEEDED}
        assert self.succeeded <= now
        self.succeeded = now
        in_flight = {attempt for _, state, _, attempt, _ in rows if state in HOLDS_A_PLACE}
        assert set(self.fleet.living()) <= in_flight

    # How it must end once everybody answers.

    def teardown(self) -> None:
        try:
            self.do(self._come_to_an_end())
        finally:
            self.do(self.stack.aclose())
            self.runner.close()

    async def _come_to_an_end(self) -> None:
        self.fleet.make_reachable()
        self.fleet._errors.clear()
        self.fleet._lost_replies = self.fleet._lost_requests = self.fleet._holding = 0
        self.fleet.default_script = Script()
        self.fleet.deliver()
        for _ in range(30):
            await self._finish_what_runs()
            await self.site.reconcile()
            await self.site.dequeue()
            self.site.clock.at += 700
            self.fleet.advance()
        await self.site.cleanup()
        for job in self.submitted:
            row = await self.site.job(job)
            assert (JobState(row.state) in ENDED, row.retry_at) == (True, None), row
            if job in self.stopped_at:
                assert row.attempt_number <= self.stopped_at[job], "a stop is not followed by another attempt"
        assert self.fleet.living() == []
        assert await self.fleet.inventory() == {}, "what ended was cleaned up"

    async def _finish_what_runs(self) -> None:
        wanted = {one.attempt.id for one in await self.site.in_flight() if one.desired == "run"}
        for attempt in self.fleet.at(Phase.RUNNING):
            if attempt in wanted:  # what is to stop must be stopped by the console
                self.site.end(attempt)

    async def _table(self) -> list[tuple[Any, ...]]:
        columns = (jobs.c.id, jobs.c.state, jobs.c.version, jobs.c.attempt_id, attempts.c.gone_since)
        rows = select(*columns).outerjoin(attempts, attempts.c.id == jobs.c.attempt_id).order_by(jobs.c.id)
        return await self.site.ledger.read(lambda connection: [tuple(row) for row in connection.execute(rows)])


MANY = 1_000
"""A stop that races with everything else may find the job anywhere."""

AnyOrder.TestCase.settings = settings(
    max_examples=50,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


TestSafetyInAnyOrder = AnyOrder.TestCase
