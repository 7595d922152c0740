"""What a simulated console stands on: a ledger without threads, requests without files."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, TypeVar

from sqlalchemy import Connection

from server.tests.scheduler.support import PlainAssembly
from simulation.machines import IMAGE, TRAINS, who_am_i
from starforge.contract.ids import AttemptId, JobId
from starforge.contract.launch import LaunchRequest, Secret
from starforge_console.domain.job import JobInFlight
from starforge_console.ledger.database import Database

T = TypeVar("T")


class JudgesStarts(Protocol):
    """Looks at the ledger before and after an attempt begins there, in the same transaction."""

    def before(self, connection: Connection, attempt: AttemptId) -> None:
        """The attempt is about to begin."""

    def after(self, connection: Connection, attempt: AttemptId) -> None:
        """It has begun, unless the ledger would not have it."""


class StillDatabase(Database):
    """The same ledger, read and written where it is asked: threads would make each run another one.

    The write that follows a `beginning` is judged.
    """

    def __init__(self, path: Path, schema: str, judge: JudgesStarts) -> None:
        super().__init__(path, schema)
        self.beginning: AttemptId | None = None
        self._judge = judge

    async def read(self, work: Callable[[Connection], T]) -> T:
        return self.read_now(work)

    async def write(self, work: Callable[[Connection], T]) -> T:
        attempt, self.beginning = self.beginning, None
        if attempt is None:
            return self.write_now(work)

        def judged(connection: Connection) -> T:
            self._judge.before(connection, attempt)
            done = work(connection)
            self._judge.after(connection, attempt)
            return done

        return self.write_now(judged)


@dataclass(kw_only=True)
class Assembly(PlainAssembly):
    """Requests for the programs that the jobs are named after.

    Attributes:
        find_kept: Gives how far the job's newest checkpoint came.
        begins: Told of each attempt that is about to be written to the ledger.

    """

    find_kept: Callable[[JobId], int]
    begins: Callable[[AttemptId], None]
    program_of: dict[JobId, str] = field(default_factory=dict)

    async def prepare(self, job: JobInFlight) -> LaunchRequest:
        request = await super().prepare(job)
        program = self.program_of[job.id]
        if program == TRAINS:
            program = f"{TRAINS} {self.find_kept(job.id)}"
        return replace(
            request, command=("-c", program), image=IMAGE, user=who_am_i(), secrets={"TOKEN": Secret("a secret")}
        )

    def token(self, attempt: AttemptId) -> str:
        self.begins(attempt)
        return super().token(attempt)
