"""Executor: the one interface between the console and whatever runs an attempt.

Promises, each a test that every executor passes:

1. `launch` twice with one attempt gives one container.
2. `NoCapacity`, `NodeFault` and `LaunchRefused` left nothing behind, and nothing of that call starts later.
3. After `BackendUnreachable` a repeat is safe.
4. An attempt missing from `observe`'s answer means `NoSignal`.
5. `Gone` only when the backend answered.
6. `inventory` finds an attempt whose launch reply was lost.
7. A fenced attempt never starts, whatever is still in flight.
8. `stop` is idempotent, returns at once, and is fine after the exit.
9. An exited attempt keeps its exit code and evidence until `cleanup`.
10. `cleanup` is idempotent; GPUs are free at the exit, even before it.
11. No secret value in labels, container environment, notes, logs, argv or `repr`.
12. Restarting console, daemon or engine changes none of this.
"""

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, runtime_checkable

from starforge.contract.ids import AttemptId
from starforge.contract.launch import LaunchRequest, PoolRequest
from starforge.contract.observation import NoSignal, Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a fleet's backend can do at all; admission reads it. One without `containers` uses no job's image."""

    multi_node: bool
    pools: bool
    live_logs: bool
    containers: bool = True


class GpuState(StrEnum):
    """What a machine says of one of its GPUs."""

    FREE = "free"
    HELD = "held"
    FOREIGN = "foreign"
    QUARANTINED = "quarantined"
    BLOCKED = "blocked"
    """Its machine does not answer: whatever ran there may still run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuView:
    """One GPU of a node. `attempt` is set when the state is HELD."""

    uuid: str
    index: int
    name: str
    series: str | None
    memory_bytes: int | None
    state: GpuState
    attempt: AttemptId | None = None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """What one machine can offer. `held` is what each living attempt there holds besides GPUs: (cpus, memory_bytes).

    `gpus_unknown` is why nobody can say which GPUs it has; `gpus` is empty then and means nothing.
    """

    name: str
    gpus: tuple[GpuView, ...]
    cpus: float
    memory_bytes: int
    held: Mapping[AttemptId, tuple[float, int]] = field(default_factory=dict)
    accepts: bool = True
    why_not: str = ""
    gpus_unknown: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetView:
    """A fleet's capacity at one moment. `complete` is False when some machine did not answer."""

    fleet: str
    nodes: tuple[NodeView, ...]
    complete: bool = True
    why_not: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where an attempt goes: chosen before anything is launched and stored with the attempt.

    Attributes:
        node: The machine; the first of several.
        name: The deterministic name at the backend.
        spread: For each pool of what was asked the machines that it would go to, where they are several; which they
            are in the end is said by a cluster's own scheduler. It is not stored.

    """

    fleet: str
    node: str
    name: str
    spread: tuple[tuple[str, ...], ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoRoom:
    """Why a request cannot be placed now: one sentence a node."""

    per_node: Mapping[str, str]
    never: bool = False
    """True when no machine of the fleet could take it even if it were empty."""


@dataclass(frozen=True, slots=True)
class LogChunk:
    """Bytes of the engine's own log and the cursor that continues after them."""

    content: bytes
    cursor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What a sweep did: attempts whose remains were removed, and unknown ones that run and were left alone."""

    removed: tuple[AttemptId, ...] = ()
    running: tuple[AttemptId, ...] = ()


class PlacementAsk(Protocol):
    """What placement reads of a request. A LaunchRequest is one; a queued job is placed without its spec."""

    @property
    def attempt(self) -> AttemptId:
        """Names the attempt; the name at the backend derives from it."""

    @property
    def pools(self) -> tuple[PoolRequest, ...]:
        """What it needs."""


class Executor(Protocol):
    """Starts attempts, says what became of them, ends them. Module docstring: the promises."""

    @property
    def kind(self) -> str:
        """The fleet kind this executor serves."""

    @property
    def capabilities(self) -> Capabilities:
        """What its backend can do at all."""

    async def capacity(self) -> FleetView | NoSignal:
        """What the fleet's machines offer now."""

    def place(self, ask: PlacementAsk, view: FleetView) -> Target | NoRoom:
        """Pure: where `ask` goes, given `view`."""

    async def launch(self, request: LaunchRequest, target: Target) -> None:
        """Start the attempt at `target`, or begin to (a pull goes on by itself).

        Raises:
            NoCapacity: a race; the target confirmed that nothing is there.
            NodeFault: the machine is at fault; nothing is there.
            LaunchRefused: this kind of backend can never take it.
            BackendUnreachable: unknown; `fence` or `observe` before anything else.

        """

    async def observe(self, attempts: Collection[AttemptId]) -> Mapping[AttemptId, Observation]:
        """What the backend says of these; one bad attempt spoils no other, and a backend that is away is NoSignal."""

    async def fence(self, attempt: AttemptId) -> Observation:
        """Write durably that `attempt` must not start any more, and say what is held of it.

        `Gone(fenced=True)` closes the attempt for ever; `Seen` says that it had started; `NoSignal` closes nothing.
        """

    async def stop(self, attempt: AttemptId, remaining_s: float) -> None:
        """Ask it to end within `remaining_s` and be killed 20 s after; returns at once. Raises BackendUnreachable."""

    async def cleanup(self, attempt: AttemptId) -> None:
        """Remove what is left of an ended attempt, secrets included. Raises BackendUnreachable."""

    async def inventory(self) -> Mapping[AttemptId, Observation] | NoSignal:
        """Everything of this install that the backend holds."""

    async def sweep(self, known: Collection[AttemptId]) -> Sequence[str]:
        """Remove what ended or was never started and is not `known`; never a running one. Gives what went."""

    async def find_native(self, attempt: AttemptId) -> str | None:
        """What was sent to start `attempt`, to the letter, as people read it; None where this kind keeps none."""

    def logs(self, attempt: AttemptId, cursor: str | None = None) -> AsyncIterator[LogChunk]:
        """The engine's own output of the attempt from `cursor` on: what happened before the runner wrote."""

    async def start(self, wake: Callable[[], None]) -> None:
        """Begin to listen for what happens at the backend; `wake` is called, from any thread, when something did."""

    async def close(self) -> None:
        """Stop listening; a second call does nothing. Attempts are untouched."""


@runtime_checkable
class Rehearsing(Protocol):
    """An executor whose backend can say beforehand whether it would take a request; admission asks it."""

    async def rehearse(self, request: LaunchRequest) -> str | None:
        """Why the backend would refuse `request`, in words for people; None where it would not, or cannot be asked.

        Nothing of the request is left anywhere.
        """
