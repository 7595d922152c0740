"""What the loops are built from; each part comes in as what it promises, so that tests bring their own."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from starforge.contract.capsule import Desired, ExitRecord
from starforge.contract.executor import Executor, FleetView
from starforge.contract.ids import AttemptId, JobId, new_attempt_id
from starforge.contract.launch import LaunchRequest
from starforge_console.clock import Clock
from starforge_console.domain.inputs import JobInputs
from starforge_console.domain.job import JobInFlight
from starforge_console.domain.waiting import WaitReason
from starforge_console.ledger.database import Database
from starforge_console.ledger.endings import EndedAttempt
from starforge_console.ledger.moves import Guard
from starforge_console.telemetry.metrics import LoopFigures
from starforge_console.wakeups import Wakeups


class Assembles(Protocol):
    """Makes attempts ready to start (assembly.Assembler)."""

    async def prepare(self, job: JobInFlight) -> LaunchRequest:
        """The request of the job's newest attempt; the same each time. Raises LaunchError."""

    async def tell(self, attempt: AttemptId, desired: Desired, grace_s: float | None, sequence: int) -> None:
        """Write the desired state where the attempt's runner looks."""

    def token(self, attempt: AttemptId) -> str:
        """The token with which the attempt reports."""

    async def find_words(self, attempt: AttemptId) -> Sequence[str]:
        """What nothing may show that the attempt says: its token, and the secrets that it was given."""


class Records(Protocol):
    """Reads what runners left on the storage."""

    async def exit_record(self, attempt: AttemptId) -> ExitRecord | None:
        """The record of the attempt's end, if there is a readable one."""

    async def finalise(self, attempt: EndedAttempt) -> tuple[dict[str, Any], int | None]:
        """Read the spool to its end; gives the outputs and how many log bytes were produced. Repeatable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSources:
    """What a pass decides by, beside what the machines offer; as in `SchedulerDeps`."""

    ledger: Database
    executors: Mapping[str, Executor]
    clock: Clock
    explain_inputs: Callable[[JobInputs], Sequence[WaitReason]] = lambda _inputs: ()
    name_attempt: Callable[[JobId, int], AttemptId] = new_attempt_id


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerDeps:
    """One console's parts.

    Attributes:
        executors: Keyed by fleet.
        views_seen: Told what the fleets offered at each look.
        find_series: Gives the series of a fleet's GPUs, each once; none where it is not known of each.
        explain_inputs: Says why a job cannot start yet for want of what it reads; empty when it may.
        name_attempt: Makes the id of a job's attempt with this number.
        round_limit_s: How long a round waits for its slowest member before it leaves that one to itself.
        owner: Names this process in leases.

    """

    ledger: Database
    executors: Mapping[str, Executor]
    assembly: Assembles
    records: Records
    wakeups: Wakeups
    clock: Clock
    views_seen: Callable[[Sequence[FleetView]], None] = lambda _views: None
    find_series: Callable[[str, Sequence[str]], Sequence[str]] = lambda _fleet, _gpus: ()
    explain_inputs: Callable[[JobInputs], Sequence[WaitReason]] = lambda _inputs: ()
    name_attempt: Callable[[JobId, int], AttemptId] = new_attempt_id
    reconcile_s: float = 15.0
    container_retention_s: float = 3600.0
    round_limit_s: float = 5.0
    figures: LoopFigures | None = None
    owner: str = field(default_factory=lambda: secrets.token_hex(8))

    @property
    def snapshot_sources(self) -> SnapshotSources:
        """What a pass decides by."""
        return SnapshotSources(
            ledger=self.ledger,
            executors=self.executors,
            clock=self.clock,
            explain_inputs=self.explain_inputs,
            name_attempt=self.name_attempt,
        )

    def guard(self) -> Guard:
        """A guard for a move now."""
        return Guard(now=self.clock.now(), monotonic=self.clock.monotonic(), lease=self.owner)
