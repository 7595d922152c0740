"""Whatever fails, in whatever order: nothing runs twice, nothing is lost, and a stop that was taken is carried out."""

import asyncio
import contextlib
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from sqlalchemy import select

from server.tests.scheduler.support import GatedFleet, Site, open_site
from starforge.contract.ids import AttemptId, JobId, job_of
from starforge.contract.observation import Observation, Phase
from starforge.contract.states import ENDED, JobState
from starforge.errors import LaunchError, LaunchRefused, NoCapacity, NodeFault
from starforge_console.executors.scripting import FakeNode, Script
from starforge_console.ledger.tables import attempts, jobs

T = TypeVar("T")
SCRIPTS = [Script(), Script(prepare_steps=None), Script(prepare_steps=2, pull_bytes=10), Script(stop_steps=None)]
FAULTS: list[str | type[LaunchError]] = ["none", "none", "reply lost", "request lost", "on its way", "on its way"]
FAULTS += [NoCapacity, NodeFault, LaunchRefused]
MOST_JOBS = 4


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
        return sorted(attempt for attempt, held in self._attempts.items() if held.phase is phase)


class AnyOrder(RuleBasedStateMachine):
    """One console, two small machines, and every fault that a fleet in memory knows."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.stack = contextlib.AsyncExitStack()
        self.folder = self.stack.enter_context(tempfile.TemporaryDirectory())
        nodes = (FakeNode(name="n1", gpus=1), FakeNode(name="n2", gpus=1))
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

    @precondition(lambda self: len(self.submitted) < MOST_JOBS)
    @rule(retries=st.integers(0, 2), script=st.sampled_from(SCRIPTS))
    def submit(self, retries: int, script: Script) -> None:
        self.fleet.default_script = script
        self.submitted.append(self.do(self.site.submit(retries)))

    @precondition(lambda self: self.submitted)
    @rule(choice=st.integers(0, MOST_JOBS - 1), grace_s=st.sampled_from([0.0, 30.0]))
    def stop(self, choice: int, grace_s: float) -> None:
        job = self.submitted[choice % len(self.submitted)]
        row = self.do(self.site.job(job))
        if row.state != JobState.SUCCEEDED and (row.state not in ENDED or row.retry_at is not None):
            self.stopped_at.setdefault(job, row.attempt_number)
        self.do(self.site.stop(job, grace_s))

    # What the console does, one loop at a time or all at once.

    @rule(fault=st.sampled_from(FAULTS))
    def dequeue(self, fault: str | type[LaunchError]) -> None:
        self.arm(fault)
        self.do(self.site.dequeue())

    def arm(self, fault: str | type[LaunchError]) -> None:
        """Let `fault` befall the next launch."""
        match fault:
            case "none":
                pass
            case "reply lost":
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

    @rule()
    def clean_up(self) -> None:
        self.do(self.site.cleanup())

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

    @rule()
    def restart(self) -> None:
        self.do(self.site.restart())

    @rule()
    def die_while_launching(self) -> None:
        async def die() -> None:
            await self.site.loops.dequeue.run_once()
            await self.site.die()  # wherever the launches are by now
            await self.site.restart()

        self.do(die())

    @rule(seconds=st.sampled_from([1.0, 20.0, 40.0, 400.0, 1_000.0]))
    def time_passes(self, seconds: float) -> None:
        self.site.clock.at += seconds

    # What machines do.

    @precondition(lambda self: self.fleet.living())
    @rule()
    def machines_work(self) -> None:
        self.fleet.advance()

    @precondition(lambda self: self.fleet.at(Phase.PREPARING))
    @rule()
    def an_attempt_starts(self) -> None:
        self.fleet.begin(self.fleet.at(Phase.PREPARING)[0])

    @precondition(lambda self: self.fleet.at(Phase.RUNNING))
    @rule(choice=st.integers(0, 3), code=st.sampled_from([0, 0, 1]), leaves_record=st.booleans())
    def an_attempt_ends(self, choice: int, code: int, *, leaves_record: bool) -> None:
        running = self.fleet.at(Phase.RUNNING)
        attempt = running[choice % len(running)]
        if leaves_record:
            self.site.end(attempt, code)
        else:
            self.fleet.finish(attempt, code)

    @precondition(lambda self: self.fleet.at(Phase.RUNNING))
    @rule()
    def an_attempt_vanishes(self) -> None:
        self.fleet.vanish(self.fleet.at(Phase.RUNNING)[0])

    @precondition(lambda self: self.fleet._held_back)
    @rule()
    def what_was_on_its_way_arrives(self) -> None:
        self.fleet.deliver()

    @precondition(lambda self: not self.is_away)
    @rule()
    def the_fleet_goes_away(self) -> None:
        self.fleet.make_unreachable()
        self.is_away = True

    @precondition(lambda self: self.is_away)
    @rule()
    def the_fleet_comes_back(self) -> None:
        self.fleet.make_reachable()
        self.is_away = False

    @rule(code=st.sampled_from([None, 255]))
    def the_engine_restarts(self, code: int | None) -> None:
        self.fleet.restart_engine(code=code)

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
    def no_job_is_lost_and_success_is_final(self) -> None:
        states = {job: state for job, state, *_ in self.do(self._table())}
        assert set(states) == set(self.submitted)
        now = {job for job, state in states.items() if state == JobState.SUCCEEDED}
        assert self.succeeded <= now
        self.succeeded = now

    @invariant()
    def what_runs_belongs_to_a_job_that_holds_a_place(self) -> None:
        states = {attempt: state for _, state, _, attempt, _ in self.do(self._table())}
        for attempt in self.fleet.living():
            assert states.get(attempt) in {JobState.SUBMITTED, JobState.PENDING, JobState.RUNNING}, attempt

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
        rows = select(*columns).outerjoin(attempts, attempts.c.id == jobs.c.attempt_id)
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
