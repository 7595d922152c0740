"""Observation: what a backend says of an attempt. Not knowing is one of the answers.

`Seen` and `Gone` are only ever said by a backend that answered; everything else is `NoSignal`, which changes no job.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


class Phase(StrEnum):
    """How far an attempt is at its backend."""

    PREPARING = "PREPARING"
    RUNNING = "RUNNING"
    EXITED = "EXITED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pull:
    """Progress of fetching the image. Totals grow as layers are met; `total_bytes` is None until one is known."""

    image: str
    done_bytes: int
    total_bytes: int | None
    progressed_at: float
    """Unix seconds of the last sign of progress."""


class EndCause(StrEnum):
    """What a backend ended an attempt for, where it is more than a code."""

    TIME_LIMIT = "time_limit"
    PREEMPTED = "preempted"
    NODE_FAILED = "node_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How the backend says an attempt ended.

    `code` is None where the backend has lost it. Times are Unix seconds by the machine's clock: they explain and order
    nothing.
    """

    code: int | None
    out_of_memory: bool
    started_at: float | None
    finished_at: float | None
    engine_started_at: float | None
    """When the engine that reports this was started: an exit at or after it with code 255 is a lost one."""
    error: str = ""
    """The backend's own words, for instance why the start failed."""
    cause: EndCause | None = None


class Failure(StrEnum):
    """Why an attempt never ran, where the backend could tell."""

    PULL_DENIED = "pull_denied"
    START_FAILED = "start_failed"
    NODE_FAULT = "node_fault"
    NO_CAPACITY = "no_capacity"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The backend holds the attempt.

    Attributes:
        phase: How far it is.
        pull: Set while the image is being fetched.
        is_queued: It waits in a queue of the backend's own, which may take as long as it likes.
        exit: Set when `phase` is EXITED and the attempt ran.
        failure: Set when `phase` is EXITED and the attempt never ran.
        gpus: UUIDs that the attempt holds or held.
        image_id: What was really run, once known.
        note: One line for people; no decision reads it.

    """

    phase: Phase
    at: float
    node: str | None = None
    pull: Pull | None = None
    is_queued: bool = False
    exit: Exit | None = None
    failure: Failure | None = None
    gpus: tuple[str, ...] = ()
    image_id: str | None = None
    image_digest: str | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """The backend answered, and holds nothing of the attempt."""

    at: float
    engine_started_at: float | None = None
    fenced: bool = False
    """The backend will also refuse every later launch of it."""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoSignal:
    """The backend could not be asked, or its answer could not be understood."""

    reason: str


Observation: TypeAlias = Seen | Gone | NoSignal
