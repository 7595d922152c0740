"""What a fake fleet is made of and told to do."""

from dataclasses import dataclass, field
from typing import Final

from starforge.contract.ids import AttemptId
from starforge.contract.launch import LaunchRequest
from starforge.contract.observation import Exit, Failure, Phase

_TERMINATED: Final = 143
_GIB: Final = 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeNode:
    """One machine of the fleet."""

    name: str
    gpus: int = 8
    series: str | None = "h100"
    cpus: float = 64.0
    memory_bytes: int = 512 * _GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What becomes of an attempt. Steps are calls of `advance`; None waits for an explicit verb.

    `failure` ends it instead of starting. `stop_steps`: how long it takes to end after a stop; None ignores TERM and
    waits for the kill at the deadline.
    """

    prepare_steps: int | None = 0
    pull_bytes: int = 0
    failure: Failure | None = None
    run_steps: int | None = None
    code: int | None = 0
    out_of_memory: bool = False
    stop_steps: int | None = 0
    stop_code: int = _TERMINATED


@dataclass(slots=True)
class Held:
    """An attempt as the fleet holds it."""

    request: LaunchRequest
    node: str
    gpus: tuple[str, ...]
    script: Script
    phase: Phase = Phase.PREPARING
    steps: int = 0
    exit: Exit | None = None
    failure: Failure | None = None
    started_at: float | None = None
    kill_at: float | None = None
    stop_steps: int | None = None
    log: list[bytes] = field(default_factory=list)


@dataclass(slots=True)
class Journal:
    """What happened, for assertions: how often each attempt was really started, and every call in order."""

    starts: dict[AttemptId, int] = field(default_factory=dict)
    calls: list[tuple[str, AttemptId | None]] = field(default_factory=list)
