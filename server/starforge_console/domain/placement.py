"""Where an attempt goes, and whether it could go anywhere at all: pure, and the one place that decides either.

Admission refuses what no fleet could run if it were empty. What was admitted while machines or their GPUs were not
known, or before a machine left, is asked again at every look at the queue: it stays queued, for a machine may come back
or join, and its reason says that nothing here can run it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from starforge.containers.labels import name_container
from starforge.containers.spec import Share, decide_share, explain_cpus, explain_memory
from starforge.contract.executor import (
    Capabilities,
    FleetView,
    GpuState,
    GpuView,
    NodeView,
    NoRoom,
    PlacementAsk,
    Target,
)
from starforge.contract.ids import AttemptId, job_of
from starforge.contract.launch import PoolRequest
from starforge.hardware.series import matches
from starforge.said.sentence import say, say_list
from starforge_console.domain.claims import claim_pool

ONE_NODE: Final = Capabilities(multi_node=False, pools=False, live_logs=True)
"""What a fleet can do whose jobs fit one machine each."""

SEVERAL_NODES: Final = Capabilities(multi_node=True, pools=True, live_logs=False)
"""What a cluster can do, whose own scheduler starts a job on several machines at once."""

_HOLDERS_NAMED: Final = 5
_SMALL_FLEET: Final = 3
"""So many machines at most name the jobs that hold them; of more, those that say the same are told as one."""
_GIB = 1024**3
_GPU_STATES: Final = {
    GpuState.FREE: say("gpu.free"),
    GpuState.HELD: say("gpu.held"),
    GpuState.FOREIGN: say("gpu.foreign"),
    GpuState.BLOCKED: say("gpu.blocked"),
    GpuState.QUARANTINED: say("gpu.quarantined"),
}
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class Fit:
    """Whether an empty fleet could run something: not if `never` says why, and nobody knows if `unknown` says why."""

    never: str = ""
    unknown: str = ""


class _Short(Enum):
    """What of a machine does not suffice; looked at in this order."""

    GPUS = auto()
    CPUS = auto()
    MEMORY = auto()


@dataclass(frozen=True, slots=True)
class _Room:
    """What a machine has to give, of the GPUs those that fit the pool. `gpus` is None where nobody knows them."""

    gpus: int | None
    cpus: float
    memory_bytes: int


def place_on_one_node(ask: PlacementAsk, view: FleetView) -> Target | NoRoom:
    """The machine for `ask`, or why none has room.

    Among machines with enough free GPUs of the series, CPUs and memory it is the one with most such GPUs free; ties go
    by name. `never` is said only of a fleet whose every machine answered, and of GPUs only where they are known.
    """
    unfit = _explain_shape(ask.pools, ONE_NODE)
    if unfit:
        return NoRoom(per_node={node.name: unfit for node in view.nodes}, never=True)
    (pool,) = ask.pools
    reasons = {node.name: _find_reason(pool, node, names_jobs=len(view.nodes) <= _SMALL_FLEET) for node in view.nodes}
    able = [node for node in view.nodes if not reasons[node.name]]
    if able:
        best = min(able, key=lambda node: (-_count_free(pool, node), node.name))
        return Target(fleet=view.fleet, node=best.name, name=name_container(ask.attempt))
    return NoRoom(per_node=reasons, never=bool(decide_fit(ask.pools, view, ONE_NODE).never))


def place_on_nodes(ask: PlacementAsk, view: FleetView) -> Target | NoRoom:
    """Machines for every pool of `ask`, or why they do not suffice.

    As on one node, those with most fitting GPUs free come first. What one pool takes, the next does not find: those
    that name a series choose first, then those with most GPUs a machine. A pool has each of its machines once.
    """
    left = view
    spread: list[tuple[str, ...]] = [()] * len(ask.pools)
    for number, pool in sorted(enumerate(ask.pools), key=lambda one: (one[1].series is None, -one[1].gpus_per_node)):
        reasons = {node.name: _find_reason(pool, node, names_jobs=False) for node in left.nodes}
        able = [node for node in left.nodes if not reasons[node.name]]
        if len(able) < pool.nodes:
            few = say("room.few_nodes", able=len(able), nodes=pool.nodes, pool=pool.name)
            never = decide_fit(ask.pools, view, SEVERAL_NODES).never
            now = {node.name: _find_reason(pool, node, names_jobs=False) for node in view.nodes}
            return NoRoom(per_node={name: why or few for name, why in now.items()}, never=bool(never))
        able.sort(key=lambda node: (-_count_free(pool, node), node.name))
        spread[number] = tuple(node.name for node in able[: pool.nodes])
        left = claim_pool(left, spread[number], ask.attempt, pool)
    return Target(fleet=view.fleet, node=spread[0][0], name=name_container(ask.attempt), spread=tuple(spread))


def decide_fit(pools: Sequence[PoolRequest], view: FleetView | None, capabilities: Capabilities) -> Fit:
    """Whether the fleet could run `pools` if every machine of it were empty; `view` None has never answered."""
    unfit = _explain_shape(pools, capabilities)
    if unfit:
        return Fit(never=unfit)
    if view is None:
        return Fit(unknown=say("fit.unanswered"))
    answers = [_decide_pool(pool, view) for pool in pools]
    return next((fit for fit in answers if fit.never), None) or next((fit for fit in answers if fit.unknown), Fit())


def _explain_shape(pools: Sequence[PoolRequest], capabilities: Capabilities) -> str:
    """Why this kind of fleet runs nothing of that shape, whatever its machines have; empty when it does."""
    nodes = sum(pool.nodes for pool in pools)
    if len(pools) != 1 and not capabilities.pools:
        return say("fit.pools", n=len(pools))
    if nodes != 1 and not capabilities.multi_node:
        return say("fit.nodes", n=nodes)
    return ""


def _decide_pool(pool: PoolRequest, view: FleetView) -> Fit:
    possible = [node for node in view.nodes if _find_shortage(pool, node, _room_when_empty(pool, node)) is None]
    doubts = [node.gpus_unknown for node in possible if pool.gpus_per_node and node.gpus_unknown]
    if len(possible) >= pool.nodes + len(doubts):
        return Fit()
    if len(possible) >= pool.nodes:
        return Fit(unknown=say("fit.pool_unknown", pool=pool.name, why=doubts[0]))
    why = _explain_never(pool, view, len(possible))
    if view.complete:
        return Fit(never=why)
    return Fit(unknown=say("fit.some_silent", why=why, silent=view.why_not or say("room.no_reason")))


def _explain_never(pool: PoolRequest, view: FleetView, possible: int) -> str:
    """What the machine lacks that comes nearest, or how many machines there are of those that are asked for."""
    if not view.nodes:
        return say("fit.no_machine")
    if possible:
        return say("fit.few_nodes", pool=pool.name, nodes=pool.nodes, possible=possible)
    largest = max(view.nodes, key=lambda node: (_count_fitting(pool, node), node.cpus, node.memory_bytes))
    share = _share_on(pool, largest)
    match _find_shortage(pool, largest, _room_when_empty(pool, largest)):
        case _Short.GPUS:
            has = str(_count_fitting(pool, largest))
            asked = say("fit.some_gpus", n=pool.gpus_per_node, gpus=_name_gpus(pool))
        case _Short.CPUS:
            has, asked = f"{largest.cpus:g}", say("fit.cpus", n=f"{share.cpus:g}")
        case _:
            has, asked = _gib(largest.memory_bytes), say("fit.memory", n=_gib(share.memory_bytes))
    return say("fit.short", pool=pool.name, asked=asked, node=largest.name, has=has)


def _find_reason(pool: PoolRequest, node: NodeView, *, names_jobs: bool) -> str:
    """Why `node` cannot take the pool now; empty when it can."""
    if not node.accepts:
        return node.why_not or say("room.none_now")
    if pool.gpus_per_node and node.gpus_unknown:
        return node.gpus_unknown
    room, share = _room_now(pool, node), _share_on(pool, node)
    match _find_shortage(pool, node, room):
        case None:
            return ""
        case _Short.GPUS:
            return say(
                "room.gpus",
                free=str(room.gpus),
                total=_count_fitting(pool, node),
                gpus=_name_gpus(pool),
                asked=pool.gpus_per_node,
                taken=_explain_taken(pool, node),
            )
        case _Short.CPUS:
            held = {attempt: cpus for attempt, (cpus, _) in node.held.items()} if names_jobs else {}
            return say(
                "room.cpus",
                free=f"{room.cpus:.4g}",
                total=f"{node.cpus:g}",
                held=_name_jobs(held, "{:.4g}".format),
                asked=f"{share.cpus:g}",
                share=explain_cpus(pool),
            )
        case _Short.MEMORY:
            held = {attempt: size_bytes for attempt, (_, size_bytes) in node.held.items()} if names_jobs else {}
            return say(
                "room.memory",
                free=_gib(room.memory_bytes),
                total=_gib(node.memory_bytes),
                held=_name_jobs(held, _gib),
                asked=_gib(share.memory_bytes),
                share=explain_memory(pool),
            )


def _name_jobs(held: Mapping[AttemptId, float], write: Callable[[float], str]) -> str:
    """Which jobs hold how much, those with most first."""
    largest = sorted(held.items(), key=lambda one: (-one[1], one[0]))
    words = [f"{job_of(attempt)}: {write(amount)}" for attempt, amount in largest[:_HOLDERS_NAMED]]
    more = len(largest) - len(words)
    words += [say("count.more", n=more)] if more > 0 else []
    return say("room.held", jobs=say_list("list.semicolon", words)) if words else ""


def _explain_taken(pool: PoolRequest, node: NodeView) -> str:
    """Who has the GPUs that are not free, and which are left out because nobody knows their series."""
    taken = [gpu for gpu in _list_fitting(pool, node) if gpu.state is not GpuState.FREE]
    words = [say("room.taken_by", n=count, holder=holder) for holder, count in _count_holders(taken)]
    if pool.series is not None:
        nameless = Counter(gpu.name for gpu in node.gpus if gpu.series is None)
        words += [say("room.nameless", n=count, name=name) for name, count in nameless.items()]
    more = len(words) - _HOLDERS_NAMED
    words = [*words[:_HOLDERS_NAMED], *([say("room.more_reasons", n=more)] if more > 0 else [])]
    return say("room.taken", reasons=say_list("list.comma", words)) if words else ""


def _count_holders(taken: Iterable[GpuView]) -> Iterable[tuple[str, int]]:
    return Counter(map(_name_holder, taken)).items()


def _name_holder(gpu: GpuView) -> str:
    if gpu.state is GpuState.HELD:
        return gpu.why or say("room.held_here")
    return say("room.gpu_state", state=_GPU_STATES[gpu.state], why=gpu.why or say("room.no_reason"))


def _find_shortage(pool: PoolRequest, node: NodeView, room: _Room) -> _Short | None:
    share = _share_on(pool, node)
    if room.gpus is not None and room.gpus < pool.gpus_per_node:
        return _Short.GPUS
    if share.cpus > room.cpus + _ROUNDING:
        return _Short.CPUS
    return _Short.MEMORY if share.memory_bytes > room.memory_bytes else None


def _room_now(pool: PoolRequest, node: NodeView) -> _Room:
    return _Room(
        gpus=_count_free(pool, node),
        cpus=node.cpus - sum(cpus for cpus, _ in node.held.values()),
        memory_bytes=node.memory_bytes - sum(held for _, held in node.held.values()),
    )


def _room_when_empty(pool: PoolRequest, node: NodeView) -> _Room:
    gpus = None if node.gpus_unknown else _count_fitting(pool, node)
    return _Room(gpus=gpus, cpus=node.cpus, memory_bytes=node.memory_bytes)


def _name_gpus(pool: PoolRequest) -> str:
    return say("fit.series_gpus", series=pool.series) if pool.series else say("fit.any_gpus")


def _gib(size_bytes: float) -> str:
    return f"{size_bytes / _GIB:.1f}"


def _share_on(pool: PoolRequest, node: NodeView) -> Share:
    return decide_share(pool, node.cpus, node.memory_bytes, len(node.gpus))


def _count_free(pool: PoolRequest, node: NodeView) -> int:
    return sum(1 for gpu in node.gpus if gpu.state is GpuState.FREE and matches(pool.series, gpu.series))


def _count_fitting(pool: PoolRequest, node: NodeView) -> int:
    return sum(1 for _ in _list_fitting(pool, node))


def _list_fitting(pool: PoolRequest, node: NodeView) -> Iterable[GpuView]:
    return (gpu for gpu in node.gpus if matches(pool.series, gpu.series))
