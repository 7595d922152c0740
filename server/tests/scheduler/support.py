"""A console's loops on a real ledger and a fleet in memory, moved one pass at a time."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from server.tests.clocks import HandClock
from server.tests.databases import make_place
from server.tests.ledger.builders import guard, submit, wish_stop
from starforge.contract.capsule import Desired, ExitRecord
from starforge.contract.executor import FleetView, Target
from starforge.contract.ids import AttemptId, Digest, JobId
from starforge.contract.launch import LaunchRequest, Network
from starforge.contract.states import JobState
from starforge_console.domain.job import JobInFlight
from starforge_console.domain.wishes import Wish
from starforge_console.executors.fake import FakeExecutor
from starforge_console.executors.scripting import FakeNode, Script
from starforge_console.ledger.database import Database
from starforge_console.ledger.endings import EndedAttempt
from starforge_console.ledger.in_flight import list_in_flight, void_leases
from starforge_console.ledger.views import AttemptRecord, JobRecord, list_attempts, list_events, load_job
from starforge_console.ledger.wishes import wish, wish_resume
from starforge_console.scheduler.apply import Apply
from starforge_console.scheduler.cleanup import Cleanup
from starforge_console.scheduler.control import Scheduler
from starforge_console.scheduler.deps import SchedulerDeps
from starforge_console.scheduler.dequeue import Dequeue
from starforge_console.scheduler.launch import Launcher
from starforge_console.scheduler.reconcile import Reconcile
from starforge_console.wakeups import Wakeups

FLEET = "lab"
T = TypeVar("T")


@dataclass
class Gate:
    """Where a call waits once it was closed. `reached` says that somebody waits there."""

    is_closed: bool = False
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    opened: asyncio.Event = field(default_factory=asyncio.Event)

    async def pass_through(self) -> None:
        if self.is_closed:
            self.reached.set()
            await self.opened.wait()


class GatedFleet(FakeExecutor):
    """A fleet whose launches can be held where a console may die: before they leave, and before they are answered."""

    def __init__(self, nodes: Sequence[FakeNode], now: Callable[[], float]) -> None:
        super().__init__(FLEET, nodes, now)
        self.before_launch = Gate()
        self.after_launch = Gate()

    async def launch(self, request: LaunchRequest, target: Target) -> None:
        await self.before_launch.pass_through()
        await super().launch(request, target)
        await self.after_launch.pass_through()

    def calls(self, name: str) -> list[AttemptId]:
        """The attempts that `name` was called for."""
        return [attempt for call, attempt in self.journal.calls if call == name and attempt is not None]

    @property
    def starts(self) -> dict[AttemptId, int]:
        return self.journal.starts


@dataclass
class PlainAssembly:
    """Requests without files; what runners are told is kept."""

    told: list[tuple[AttemptId, Desired]] = field(default_factory=list)
    graces: list[float | None] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)
    tell_errors: dict[AttemptId, Exception] = field(default_factory=dict)

    async def prepare(self, job: JobInFlight) -> LaunchRequest:
        if self.errors:
            raise self.errors.pop(0)
        return LaunchRequest(
            attempt=job.attempt.id,
            job=job.id,
            number=job.attempt.number,
            install="lab",
            fleet=job.attempt.target.fleet,
            image="train:1",
            command=(),
            workdir="/a",
            user=None,
            env={},
            secrets={},
            mounts=(),
            pools=job.pools,
            labels={},
            network=Network.BRIDGE,
            grace_s=job.grace_s,
            max_runtime_s=job.max_runtime_s,
            shm_bytes=None,
            capsule_digest=Digest("sha256:" + "0" * 64),
            ingest_url="",
        )

    async def tell(self, attempt: AttemptId, desired: Desired, grace_s: float | None, sequence: int) -> None:
        del sequence
        self.graces.append(grace_s)
        if attempt in self.tell_errors:
            raise self.tell_errors[attempt]
        self.told.append((attempt, desired))

    def token(self, attempt: AttemptId) -> str:
        return f"token of {attempt}"

    async def find_words(self, attempt: AttemptId) -> Sequence[str]:
        return (self.token(attempt), f"secret of {attempt}")


@dataclass
class KeptRecords:
    """Exit records and spools that a test has put there."""

    exits: dict[AttemptId, ExitRecord] = field(default_factory=dict)
    errors: list[Exception] = field(default_factory=list)
    unreadable: dict[AttemptId, Exception] = field(default_factory=dict)
    finalised: list[AttemptId] = field(default_factory=list)

    async def exit_record(self, attempt: AttemptId) -> ExitRecord | None:
        if attempt in self.unreadable:
            raise self.unreadable[attempt]
        return self.exits.get(attempt)

    async def finalise(self, attempt: EndedAttempt) -> tuple[dict[str, Any], int | None]:
        if self.errors:
            raise self.errors.pop(0)
        self.finalised.append(attempt.id)
        return {"artifacts": []}, 7


class Loops:
    """The parts of one console process, each to be called by hand."""

    def __init__(self, deps: SchedulerDeps) -> None:
        self.deps = deps
        apply = Apply(deps)
        self.launcher = Launcher(deps, apply)
        self.reconcile = Reconcile(deps, apply, self.launcher)
        self.dequeue = Dequeue(deps, self.launcher)
        self.cleanup = Cleanup(deps)

    async def settle_launches(self) -> None:
        """Wait for the launches that are under way."""
        await self.launcher.settle_all()

    async def close(self) -> None:
        """Cut off what is under way."""
        await self.launcher.close()
        await self.dequeue.close()
        await self.reconcile.close()
        await self.cleanup.close()


@dataclass
class Site:
    """One console, its ledger and its fleet."""

    ledger: Database
    clock: HandClock
    fleet: GatedFleet
    assembly: PlainAssembly = field(default_factory=PlainAssembly)
    records: KeptRecords = field(default_factory=KeptRecords)
    wakeups: Wakeups = field(default_factory=Wakeups)
    views: list[Sequence[FleetView]] = field(default_factory=list)
    starts: int = 0

    def __post_init__(self) -> None:
        self.loops = Loops(self.new_deps())

    def new_deps(self, **changes: Any) -> SchedulerDeps:
        """What a new process of this console stands on."""
        self.starts += 1
        deps = SchedulerDeps(
            ledger=self.ledger,
            executors={FLEET: self.fleet},
            assembly=self.assembly,
            records=self.records,
            wakeups=self.wakeups,
            clock=self.clock,
            views_seen=self.views.append,
            container_retention_s=0.0,
            owner=f"process {self.starts}",
        )
        return replace(deps, **changes)

    async def die(self) -> None:
        """End the process: what it had under way is cut off."""
        await self.loops.close()

    async def restart(self) -> None:
        """A new process on the same ledger, as `Scheduler.start` begins, with its loops in the test's hand."""
        await self.die()
        self.loops = Loops(self.new_deps())
        await self.ledger.write(void_leases)
        await self.loops.reconcile.run_once()

    def begin_scheduler(self, **changes: Any) -> Scheduler:
        """A new process with its own loops; it is to be closed."""
        return Scheduler(self.new_deps(**changes))

    async def submit(self, retries: int = 0, **choices: Any) -> JobId:
        """A queued job; `choices` as of the ledger's builder."""
        now = self.clock.now()
        return await self.ledger.write(lambda c: submit(c, now=now, retries=retries, **choices))

    async def stop(self, job: JobId, grace_s: float | None = None) -> None:
        moved = guard(self.clock.now(), lease=None)
        await self.ledger.write(lambda c: wish_stop(c, job, grace_s, moved))

    async def wish(self, job: JobId, wished: Wish) -> bool:
        moved = guard(self.clock.now(), lease=None)
        return await self.ledger.write(lambda c: wish(c, job, wished, moved))

    async def resume(self, job: JobId) -> bool:
        moved = guard(self.clock.now(), lease=None)
        return await self.ledger.write(lambda c: wish_resume(c, job, moved, "resumed by ada"))

    async def dequeue(self) -> None:
        """A pass of the queue, and the launches that came of it."""
        await self.loops.dequeue.run_once()
        await self.loops.settle_launches()

    async def reconcile(self) -> float:
        return await self.loops.reconcile.run_once()

    async def cleanup(self) -> float:
        return await self.loops.cleanup.run_once()

    async def job(self, job: JobId) -> JobRecord:
        return await self.ledger.read(lambda c: load_job(c, job))

    async def state(self, job: JobId) -> tuple[str, str]:
        row = await self.job(job)
        return row.state, row.reason

    async def attempts(self, job: JobId) -> Sequence[AttemptRecord]:
        return await self.ledger.read(lambda c: list_attempts(c, job))

    async def attempt(self, job: JobId) -> AttemptId:
        """The newest attempt."""
        return AttemptId((await self.attempts(job))[-1].id)

    async def reasons(self, job: JobId) -> list[str]:
        events = await self.ledger.read(lambda c: list_events(c, job, limit=1_000))
        return [event.reason or "" for event in events if event.kind == "state"]

    async def in_flight(self) -> list[JobInFlight]:
        return await self.ledger.read(list_in_flight)

    async def running(self, retries: int = 0) -> tuple[JobId, AttemptId]:
        """A job that runs."""
        job = await self.submit(retries)
        await self.dequeue()
        await self.reconcile()
        assert (await self.job(job)).state == JobState.RUNNING
        return job, await self.attempt(job)

    def end(self, attempt: AttemptId, code: int = 0) -> None:
        """Let the attempt end by itself, with the record that its runner leaves."""
        self.records.exits[attempt] = make_record(attempt, code, self.clock.now())
        self.fleet.finish(attempt, code)

    async def wait_for(self, job: JobId, *states: JobState) -> JobRecord:
        """The job once it is in one of `states`; the loops must be running."""
        return await asyncio.wait_for(self._wait_for(job, states), 20)

    async def _wait_for(self, job: JobId, states: Sequence[JobState]) -> JobRecord:
        while True:
            waiter = self.wakeups.subscribe(f"job:{job}")
            row = await self.job(job)
            if row.state in states:
                self.wakeups.forget(waiter)
                return row
            await waiter.wait(1.0)


def make_record(attempt: AttemptId, code: int, now: float, desired: Desired = "run") -> ExitRecord:
    return ExitRecord(
        version="1.0",
        attempt=attempt,
        code=code,
        signal=None,
        term_received_at=None,
        desired=desired,
        complete=code == 0,
        reason=None,
        message=None,
        started_at=now - 1,
        ended_at=now,
    )


@asynccontextmanager
async def open_site(
    folder: Path,
    *nodes: FakeNode,
    script: Script | None = None,
    ledger_kind: type[Database] = Database,
    fleet_kind: type[GatedFleet] = GatedFleet,
) -> AsyncIterator[Site]:
    """A console in `folder` over one machine with two GPUs, or over `nodes`."""
    ledger = ledger_kind(make_place(folder / "ledger.db", "ledger"), "ledger")
    clock = HandClock()
    fleet = fleet_kind(nodes or [FakeNode(name="n1", gpus=2)], clock.now)
    if script is not None:
        fleet.default_script = script
    site = Site(ledger, clock, fleet)
    site.wakeups.bind()
    try:
        yield site
    finally:
        await site.die()
        ledger.close()


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)
