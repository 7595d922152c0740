"""Where an attempt goes in a fleet whose jobs fit one machine: pure."""

from starforge.containers.spec import Share, decide_share, explain_cpus, explain_memory, require_one_node
from starforge.contract.executor import FleetView, GpuState, NodeView, NoRoom, PlacementAsk
from starforge.contract.launch import PoolRequest
from starforge.errors import LaunchRefused

_GIB = 1024**3
_ROUNDING = 1e-6


def place_on_one_node(ask: PlacementAsk, view: FleetView) -> str | NoRoom:
    """The name of the machine for `ask`, or why none has room.

    Among machines with enough free GPUs of the series, CPUs and memory it is the one with most such GPUs free; ties go
    by name. `never` is said only of a fleet whose every machine answered, and of GPUs only where they are known.
    """
    try:
        pool = require_one_node(ask)
    except LaunchRefused as error:
        return NoRoom(per_node={node.name: str(error) for node in view.nodes}, never=True)
    reasons = {node.name: _find_reason(pool, node) for node in view.nodes}
    able = [node for node in view.nodes if not reasons[node.name]]
    if able:
        return min(able, key=lambda node: (-_count_free(pool, node), node.name)).name
    never = view.complete and not any(_fits_when_empty(pool, node) for node in view.nodes)
    return NoRoom(per_node=reasons, never=never)


def _find_reason(pool: PoolRequest, node: NodeView) -> str:
    """Why `node` cannot take the pool now; empty when it can."""
    if not node.accepts:
        return node.why_not or "takes no jobs now"
    if pool.gpus_per_node and node.gpus_unknown:
        return node.gpus_unknown
    free, fitting = _count_free(pool, node), _count_fitting(pool, node)
    if free < pool.gpus_per_node:
        kind = f"{pool.series} GPUs" if pool.series else "GPUs"
        return f"{free} of {fitting} {kind} free, {pool.gpus_per_node} asked for"
    share = _share_on(pool, node)
    free_cpus = node.cpus - sum(cpus for cpus, _ in node.held.values())
    if share.cpus > free_cpus + _ROUNDING:
        return f"{free_cpus:.4g} of {node.cpus:g} CPUs free, {share.cpus:g} asked for{explain_cpus(pool)}"
    free_bytes = node.memory_bytes - sum(held for _, held in node.held.values())
    if share.memory_bytes > free_bytes:
        asked = f"{_gib(share.memory_bytes)} asked for{explain_memory(pool)}"
        return f"{_gib(free_bytes)} of {_gib(node.memory_bytes)} GiB free, {asked}"
    return ""


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / _GIB:.1f}"


def _fits_when_empty(pool: PoolRequest, node: NodeView) -> bool:
    share = _share_on(pool, node)
    enough = share.cpus <= node.cpus + _ROUNDING and share.memory_bytes <= node.memory_bytes
    return enough and (bool(node.gpus_unknown) or _count_fitting(pool, node) >= pool.gpus_per_node)


def _share_on(pool: PoolRequest, node: NodeView) -> Share:
    return decide_share(pool, node.cpus, node.memory_bytes, len(node.gpus))


def _count_free(pool: PoolRequest, node: NodeView) -> int:
    return sum(gpu.state is GpuState.FREE and pool.series in {None, gpu.series} for gpu in node.gpus)


def _count_fitting(pool: PoolRequest, node: NodeView) -> int:
    return sum(pool.series in {None, gpu.series} for gpu in node.gpus)
