"""The job as decisions see it: values only."""

from dataclasses import dataclass
from typing import NamedTuple

from starforge.contract.executor import Target
from starforge.contract.ids import AttemptId, JobId
from starforge.contract.launch import PoolRequest
from starforge.contract.states import DesiredState, JobState, Reason
from starforge_console.domain.inputs import NO_INPUTS, JobInputs


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptState:
    """The newest attempt of a job. Times are Unix seconds by the console's clock."""

    id: AttemptId
    number: int
    target: Target
    dequeued_at: float
    launched_at: float | None = None
    started_at: float | None = None
    stop_sent_at: float | None = None
    gone_since: float | None = None
    """When the backend first said that it holds nothing of the attempt."""
    gone_engine_started_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInFlight:
    """What `decide` needs of a job that holds a place: no spec, no log, no user."""

    id: JobId
    state: JobState
    reason: Reason
    desired: DesiredState
    version: int
    attempt: AttemptState
    grace_s: float
    max_runtime_s: float | None
    pools: tuple[PoolRequest, ...]
    stop_by: float | None = None
    """When the job must have ended by itself, once a stop or pause is wished."""
    stop_grace_s: float | None = None
    """How much time that left it when it was wished."""
    note: str = ""
    wished_for: Reason | None = None
    """What the end of a stop or a pause confirms that the platform wished; None where a user wished it."""
    goes_on: bool = False
    """Whether the job goes on by itself after that."""


class QueuedJob(NamedTuple):
    """What ordering and placement need of a queued job; read narrow, for there may be ten thousand of them.

    A tuple: frozen dataclasses take five times as long to make.
    """

    id: JobId
    version: int
    fleet: str | None
    priority: int
    submitted_at: float
    reason: Reason
    """Why it is queued."""
    queued_at: float
    number: int
    """Which attempt the next one is, counted from 1."""
    pools: tuple[PoolRequest, ...]
    note: str = ""
    """Why it waits, as it was last told."""
    user_id: int = 0
    inputs: JobInputs = NO_INPUTS
    """What it reads beside its workspace; equal ones of a queue are one object mostly."""
    ahead: int = 0
    """How far an administrator moved it: above 0 before all that were not moved, below 0 behind them."""
    passed: int = 0
    """How many jobs behind it have started where it found no room."""
    grace_s: float = 0.0
    lasts_s: float | None = None
    """How long its next attempt may hold its place at most; None where nobody set a limit."""
