"""What a simulated console stands on: clocks that are moved, a ledger without threads, requests without files."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from sqlalchemy import Connection

from server.tests.scheduler.support import PlainAssembly
from simulation.machines import IMAGE, who_am_i
from starforge.contract.ids import JobId
from starforge.contract.launch import LaunchRequest, Secret
from starforge_console.domain.job import JobInFlight
from starforge_console.ledger.database import Database

T = TypeVar("T")


@dataclass
class VirtualClock:
    """The console's clocks: the monotonic one goes with the world, the other one can be set."""

    passed: float = 1_800_000_000.0
    offset: float = 0.0

    def now(self) -> float:
        return self.passed + self.offset

    def monotonic(self) -> float:
        return self.passed


class StillDatabase(Database):
    """The same ledger, read and written where it is asked: threads would make each run another one."""

    async def read(self, work: Callable[[Connection], T]) -> T:
        return self.read_now(work)

    async def write(self, work: Callable[[Connection], T]) -> T:
        return self.write_now(work)


@dataclass
class Assembly(PlainAssembly):
    """Requests for the programs that the jobs are named after."""

    program_of: dict[JobId, str] = field(default_factory=dict)

    async def prepare(self, job: JobInFlight) -> LaunchRequest:
        request = await super().prepare(job)
        return replace(
            request,
            command=("-c", self.program_of[job.id]),
            image=IMAGE,
            user=who_am_i(),
            secrets={"TOKEN": Secret("a secret")},
        )
