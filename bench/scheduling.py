"""The scheduler on a real ledger and a made-up fleet: one look at a long queue, and jobs placed per second."""

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, insert

from bench.figures import Figure, Orientation, Ratio, compare, timed
from bench.ground import Ground
from starforge.contract.canonical import digest_bytes
from starforge.contract.capsule import Desired, ExitRecord
from starforge.contract.executor import Executor, FleetView, NoRoom
from starforge.contract.ids import AttemptId, JobId, job_of, new_job_id, number_of
from starforge.contract.launch import LaunchRequest, Network, PoolRequest
from starforge.contract.observation import NoSignal
from starforge.contract.states import DesiredState, JobState, Reason
from starforge_console.clock import SystemClock
from starforge_console.domain.job import JobInFlight
from starforge_console.executors.fake import FakeExecutor
from starforge_console.executors.scripting import FakeNode
from starforge_console.ledger.accounts import add_user
from starforge_console.ledger.database import Database, upgrade_schema
from starforge_console.ledger.endings import EndedAttempt
from starforge_console.ledger.pools import write_pools
from starforge_console.ledger.tables import jobs
from starforge_console.ledger.views import count_by_state
from starforge_console.scheduler.apply import Apply
from starforge_console.scheduler.control import Scheduler
from starforge_console.scheduler.deps import SchedulerDeps
from starforge_console.scheduler.dequeue import Dequeue
from starforge_console.scheduler.launch import Launcher
from starforge_console.wakeups import BACKEND, Wakeups

_QUEUED: Final = 10_000
_NODES: Final = 50
_PASS_AT_MOST: Final = 3.0
_PLACED: Final = _NODES * 8
_PLACEMENTS_WITHIN_S: Final = 30.0
_WHOLE_NODE: Final = PoolRequest(name="main", nodes=1, gpus_per_node=8)
_SELECT: Final = (
    "SELECT id, version, fleet, priority, submitted_at, reason, state_since, attempt_number, note, pools"
    " FROM jobs WHERE state = 'QUEUED'"
)


def schedule_pass(ground: Ground) -> list[Figure]:
    """One pass over 10,000 queued jobs that find 400 GPUs taken, over reading the same rows and nothing else.

    The first pass, which writes down why each of them waits, is shown beside it.
    """
    folder = ground.folder()
    with _open_ledger(folder) as ledger:
        ledger.write_now(lambda c: _fill(c, _QUEUED))
        return _measure_pass(ledger, folder)


def placements(ground: Ground) -> list[Figure]:
    """Jobs a second from queued to launched, by all loops at once."""
    with _open_ledger(ground.folder()) as ledger:
        ledger.write_now(lambda c: _fill(c, _PLACED))
        rate = _PLACED / asyncio.run(_place_all(ledger))
    return [Orientation("placements", rate, "jobs/s", aim=">=500", detail=f"{_PLACED} jobs on {_PLACED} GPUs")]


@dataclass
class _Assembly:
    """Makes requests without a storage."""

    asked: dict[AttemptId, LaunchRequest] = field(default_factory=dict)

    async def prepare(self, job: JobInFlight) -> LaunchRequest:
        return build_request(job.attempt.id, job.pools)

    async def tell(self, attempt: AttemptId, desired: Desired, grace_s: float | None, sequence: int) -> None:
        """Nobody listens."""

    def token(self, attempt: AttemptId) -> str:
        return attempt

    async def find_words(self, attempt: AttemptId) -> tuple[str, ...]:
        return (self.token(attempt),)


class _StillFleet(FakeExecutor):
    """Gives the view it was told to give: making one up is no work of the scheduler's."""

    view: FleetView | NoSignal | None = None

    async def capacity(self) -> FleetView | NoSignal:
        return self.view or await super().capacity()


class _Records:
    """Nothing was left."""

    async def exit_record(self, attempt: AttemptId) -> ExitRecord | None:
        del attempt
        return None

    async def finalise(self, attempt: EndedAttempt) -> tuple[dict[str, Any], int | None]:
        del attempt
        return {}, None


def build_request(attempt: AttemptId, pools: tuple[PoolRequest, ...]) -> LaunchRequest:
    """A request that a made-up fleet takes."""
    return LaunchRequest(
        attempt=attempt,
        job=JobId(job_of(attempt)),
        number=number_of(attempt),
        install="bench",
        fleet="local",
        image="bench:1",
        command=(),
        workdir="/",
        user=None,
        env={},
        secrets={},
        mounts=(),
        pools=pools,
        labels={},
        network=Network.NONE,
        grace_s=30.0,
        max_runtime_s=None,
        shm_bytes=None,
        capsule_digest=digest_bytes(b""),
        ingest_url="",
    )


def _measure_pass(ledger: Database, folder: Path) -> list[Figure]:
    runner, rows = asyncio.Runner(), sqlite3.connect(folder / "ledger.db")
    fleet = _StillFleet("local", _list_nodes(), time.time)
    deps = runner.run(_build_deps(ledger, fleet))
    runner.run(_take_all(fleet))
    dequeue = Dequeue(deps, Launcher(deps, Apply(deps)))
    first_s = timed(lambda: runner.run(dequeue.run_once()))()
    with contextlib.closing(runner), contextlib.closing(rows):
        bare = timed(lambda: rows.execute(_SELECT).fetchall())
        pairs = compare(timed(lambda: runner.run(dequeue.run_once())), bare, 9, limit_s=15)
    return [
        Ratio("schedule_pass", pairs.ratio, _PASS_AT_MOST, detail=f"{_QUEUED} queued, {pairs.describe()}"),
        Orientation("schedule_pass_first", first_s * 1e3, "ms", detail="the pass that notes why each of them waits"),
    ]


async def _take_all(fleet: "_StillFleet") -> None:
    """Let jobs of 8 GPUs hold every machine."""
    for _ in range(_NODES):
        request = build_request(AttemptId(f"{new_job_id()}-1-abcdef"), (_WHOLE_NODE,))
        view = await fleet.capacity()
        if isinstance(view, NoSignal):
            raise TypeError(view.reason)
        target = fleet.place(request, view)
        if isinstance(target, NoRoom):
            raise TypeError(f"the made-up fleet is smaller than {_NODES} machines")
        await fleet.launch(request, target)
    fleet.view = await fleet.capacity()


async def _place_all(ledger: Database) -> float:
    """Seconds until every queued job is launched."""
    deps = await _build_deps(ledger, FakeExecutor("local", _list_nodes(), time.time))
    scheduler = Scheduler(deps)
    began = time.perf_counter()
    await scheduler.start()
    try:
        async with asyncio.timeout(_PLACEMENTS_WITHIN_S):
            await _wait_launched(deps)
        return time.perf_counter() - began
    finally:
        await scheduler.close()


async def _wait_launched(deps: SchedulerDeps) -> None:
    while True:
        waiter = deps.wakeups.subscribe(BACKEND)
        if await deps.ledger.read(_count_launched) == _PLACED:
            deps.wakeups.forget(waiter)
            return
        await waiter.wait(0.05)


def _count_launched(connection: Connection) -> int:
    counts = count_by_state(connection)
    return sum(counts.get(state.value, 0) for state in (JobState.PENDING, JobState.RUNNING))


async def _build_deps(ledger: Database, fleet: Executor) -> SchedulerDeps:
    wakeups = Wakeups()
    wakeups.bind()
    return SchedulerDeps(
        ledger=ledger,
        executors={"local": fleet},
        assembly=_Assembly(),
        records=_Records(),
        wakeups=wakeups,
        clock=SystemClock(),
    )


def _list_nodes() -> list[FakeNode]:
    return [FakeNode(name=f"n{number:02}") for number in range(_NODES)]


@contextlib.contextmanager
def _open_ledger(folder: Path) -> Iterator[Database]:
    upgrade_schema(folder / "ledger.db", "ledger")
    with contextlib.closing(Database(folder / "ledger.db", "ledger")) as ledger:
        yield ledger


def _fill(connection: Connection, count: int) -> None:
    """Queue `count` jobs of one GPU, with documents of the usual size."""
    user = add_user(connection, "ada", "member", 1.0)
    shared = {
        "user_id": user,
        "name": "first",
        "project": "demo",
        "spec": "s" * 1500,
        "spec_digest": digest_bytes(b""),
        "admission": "a" * 1500,
        "fleet": None,
        "priority": 0,
        "pools": write_pools([PoolRequest(name="main", nodes=1, gpus_per_node=1)]),
        "gpus": 1,
        "grace_s": 30.0,
        "state": JobState.QUEUED.value,
        "reason": Reason.ADMITTED.value,
        "desired": DesiredState.RUN.value,
        "version": 1,
        "note": "",
        "attempt_number": 0,
        "retries_left": 0,
        "free_retries": 0,
    }
    moments = ({"submitted_at": float(number), "state_since": float(number)} for number in range(count))
    connection.execute(insert(jobs), [{**shared, "id": new_job_id(), **moment} for moment in moments])
