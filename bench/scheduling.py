"""The scheduler on a real ledger and a made-up fleet: how many jobs it places in a second."""

import asyncio
import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, insert

from bench.figures import Figure, Orientation
from bench.ground import Ground
from starforge.contract.canonical import digest_bytes
from starforge.contract.capsule import Desired, ExitRecord
from starforge.contract.executor import Executor
from starforge.contract.ids import AttemptId, JobId, job_of, new_job_id, number_of
from starforge.contract.launch import LaunchRequest, Network, PoolRequest
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
from starforge_console.scheduler.control import Scheduler
from starforge_console.scheduler.deps import SchedulerDeps
from starforge_console.wakeups import BACKEND, Wakeups

NODES: Final = 50
_PLACED: Final = NODES * 8
_PLACEMENTS_WITHIN_S: Final = 30.0


def placements(ground: Ground) -> list[Figure]:
    """Jobs a second from queued to launched, by all loops at once."""
    with open_ledger(ground.folder()) as ledger:
        ledger.write_now(lambda c: fill(c, _PLACED))
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


async def _place_all(ledger: Database) -> float:
    """Seconds until every queued job is launched."""
    deps = await build_deps(ledger, FakeExecutor("local", list_nodes(), time.time))
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


async def build_deps(ledger: Database, fleet: Executor) -> SchedulerDeps:
    """The parts of a console with this fleet."""
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


def list_nodes() -> list[FakeNode]:
    """The machines of the made-up fleet, each with 8 GPUs."""
    return [FakeNode(name=f"n{number:02}") for number in range(NODES)]


@contextlib.contextmanager
def open_ledger(folder: Path) -> Iterator[Database]:
    """A new ledger in `folder`."""
    upgrade_schema(folder / "ledger.db", "ledger")
    with contextlib.closing(Database(folder / "ledger.db", "ledger")) as ledger:
        yield ledger


def fill(connection: Connection, count: int) -> None:
    """Queue `count` jobs of one GPU, with documents of the usual size."""
    user = add_user(connection, "ada", "member", 1.0)
    moments = ({"submitted_at": float(number), "state_since": float(number)} for number in range(count))
    insert_jobs(connection, ({"user_id": user, **moment} for moment in moments))


def insert_jobs(connection: Connection, each: Iterable[Mapping[str, Any]]) -> None:
    """Keep queued jobs of one GPU; `each` has the columns in which they differ."""
    shared = {
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
        "max_runtime_s": None,
        "ahead": 0,
        "passed": 0,
        "submitted_at": 0.0,
        "state_since": 0.0,
    }
    connection.execute(insert(jobs), [{**shared, "id": new_job_id(), **own} for own in each])
