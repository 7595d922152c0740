"""A job's states, the reasons a state changes for, and the one table that says which change is allowed.

The table is the specification: `advance` is the only way from one state to the next, and `docs/dev/states.md` is drawn
from it.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Final, TypeAlias

from starforge.errors import IllegalTransition


class JobState(StrEnum):
    """What the ledger says of a job; no backend's native state."""

    QUEUED = "QUEUED"
    SUBMITTED = "SUBMITTED"
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"


class DesiredState(StrEnum):
    """What the user wants of a job; durable beside the state, never a state."""

    RUN = "run"
    STOP = "stop"
    PAUSE = "pause"


class Reason(StrEnum):
    """Why a state changed: what the ledger keeps, pages explain and retry decides on."""

    ADMITTED = "admitted"
    DEQUEUED = "dequeued"
    STOP_REQUESTED = "stop_requested"
    PAUSE_REQUESTED = "pause_requested"
    NO_CAPACITY = "no_capacity"
    NODE_FAULT = "node_fault"
    WINDOW_CLOSED = "window_closed"
    LAUNCHED = "launched"
    LAUNCH_REFUSED = "launch_refused"
    STOP_CONFIRMED = "stop_confirmed"
    PAUSE_CONFIRMED = "pause_confirmed"
    STARTED = "started"
    PULL_DENIED = "pull_denied"
    START_FAILED = "start_failed"
    VANISHED = "vanished"
    DRAINED = "drained"
    EXITED_ZERO = "exited_zero"
    EXITED_NONZERO = "exited_nonzero"
    OUT_OF_MEMORY = "out_of_memory"
    GPU_LOST = "gpu_lost"
    MAX_RUNTIME = "max_runtime"
    INTERRUPTED = "interrupted"
    PREEMPTED = "preempted"
    NODE_LOST = "node_lost"
    RESUMED = "resumed"
    RETRIED = "retried"
    RETRIED_BY_USER = "retried_by_user"
    CONTINUED = "continued"
    WINDOW_OPENED = "window_opened"


Edges: TypeAlias = Mapping[tuple[JobState | None, Reason], JobState]

_S, _R = JobState, Reason


def _build_transitions() -> Edges:
    table: dict[tuple[JobState | None, Reason], JobState] = {}

    def edge(state: JobState | None, reasons: Sequence[Reason], to: JobState) -> None:
        table.update({(state, reason): to for reason in reasons})

    edge(None, [_R.ADMITTED], _S.QUEUED)

    edge(_S.QUEUED, [_R.DEQUEUED], _S.SUBMITTED)
    edge(_S.QUEUED, [_R.STOP_REQUESTED], _S.STOPPED)
    edge(_S.QUEUED, [_R.PAUSE_REQUESTED], _S.PAUSED)

    edge(_S.SUBMITTED, [_R.NO_CAPACITY, _R.NODE_FAULT, _R.WINDOW_CLOSED], _S.QUEUED)
    edge(_S.SUBMITTED, [_R.LAUNCHED], _S.PENDING)
    edge(_S.SUBMITTED, [_R.LAUNCH_REFUSED, _R.NODE_LOST], _S.FAILED)
    edge(_S.SUBMITTED, [_R.STOP_CONFIRMED], _S.STOPPED)
    edge(_S.SUBMITTED, [_R.PAUSE_CONFIRMED], _S.PAUSED)

    edge(_S.PENDING, [_R.STARTED], _S.RUNNING)
    edge(_S.PENDING, [_R.PULL_DENIED, _R.START_FAILED, _R.VANISHED, _R.NODE_FAULT], _S.FAILED)
    edge(_S.PENDING, [_R.INTERRUPTED, _R.PREEMPTED, _R.NODE_LOST], _S.FAILED)
    edge(_S.PENDING, [_R.STOP_CONFIRMED, _R.WINDOW_CLOSED], _S.STOPPED)
    edge(_S.PENDING, [_R.PAUSE_CONFIRMED, _R.DRAINED], _S.PAUSED)

    edge(_S.RUNNING, [_R.EXITED_ZERO], _S.SUCCEEDED)
    edge(_S.RUNNING, [_R.EXITED_NONZERO, _R.OUT_OF_MEMORY, _R.GPU_LOST, _R.VANISHED], _S.FAILED)
    edge(_S.RUNNING, [_R.MAX_RUNTIME, _R.START_FAILED], _S.FAILED)
    edge(_S.RUNNING, [_R.INTERRUPTED, _R.PREEMPTED, _R.NODE_LOST], _S.FAILED)
    edge(_S.RUNNING, [_R.STOP_CONFIRMED, _R.WINDOW_CLOSED], _S.STOPPED)
    edge(_S.RUNNING, [_R.PAUSE_CONFIRMED, _R.DRAINED], _S.PAUSED)

    edge(_S.PAUSED, [_R.RESUMED], _S.QUEUED)
    edge(_S.PAUSED, [_R.STOP_REQUESTED], _S.STOPPED)
    edge(_S.FAILED, [_R.RETRIED, _R.RETRIED_BY_USER], _S.QUEUED)
    edge(_S.STOPPED, [_R.CONTINUED, _R.WINDOW_OPENED], _S.QUEUED)
    return MappingProxyType(table)


TRANSITIONS: Final[Edges] = _build_transitions()

HOLDS_A_PLACE: Final = frozenset({_S.SUBMITTED, _S.PENDING, _S.RUNNING})
"""States in which an attempt is counted against machines and quotas."""

ENDED: Final = frozenset({_S.SUCCEEDED, _S.FAILED, _S.STOPPED})
"""States in which no attempt is alive; only SUCCEEDED is final."""

FREE_OF_CHARGE: Final = frozenset({_R.NO_CAPACITY, _R.NODE_FAULT, _R.INTERRUPTED, _R.PREEMPTED, _R.NODE_LOST})
"""Reasons that lie with the infrastructure: the job is run again and its retries are not touched."""


def has_ended_for_good(state: str, retry_at: float | None) -> bool:
    """Whether nothing happens to a job of that state by itself any more; one that is to be retried goes on."""
    return state in ENDED and retry_at is None


def advance(state: JobState | None, reason: Reason, history: Sequence[str] = ()) -> JobState:
    """The state that follows `state` for `reason`.

    Raises:
        IllegalTransition: the table has no such edge; `history` (the job's events, oldest first) goes into the message.

    """
    try:
        return TRANSITIONS[state, reason]
    except KeyError:
        before = state or "a job that does not exist yet"
        raise IllegalTransition(
            f"{before} has no edge for {reason}",
            why=f"history: {' > '.join(history) or 'none'}",
            next_step="report this with the console's log",
        ) from None
