"""What of a cluster is as good as taken, and what a pool takes that says no CPUs or memory: pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from starforge.contract.executor import FleetView, GpuState, GpuView, NodeView
from starforge.contract.ids import AttemptId
from starforge.contract.launch import PoolRequest
from starforge.hardware.series import matches


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What an attempt of ours asks for that its cluster has not placed yet."""

    attempt: AttemptId
    pools: Sequence[PoolRequest]


def reserve(view: FleetView, waiting: Sequence[Waiting]) -> FleetView:
    """The view once the cluster will have placed what is `waiting`, as far as there is room: it is as good as taken."""
    nodes = {node.name: node for node in view.nodes}
    for ask in waiting:
        for pool in ask.pools:
            able = sorted(nodes.values(), key=lambda node: (not node.accepts, -_count_free(node, pool), node.name))
            for node in able[: pool.nodes]:
                nodes[node.name] = _take(node, pool, ask.attempt)
    return replace(view, nodes=tuple(nodes[node.name] for node in view.nodes))


def resolve_pools(pools: Sequence[PoolRequest], shares: Sequence[tuple[float, int]]) -> tuple[PoolRequest, ...]:
    """The pools with CPUs and memory of `shares`, one (cpus, memory_bytes) a pool, where they say none."""
    return tuple(
        PoolRequest(
            name=pool.name,
            nodes=pool.nodes,
            gpus_per_node=pool.gpus_per_node,
            series=pool.series,
            cpus=share[0] if pool.cpus is None else pool.cpus,
            memory_bytes=share[1] if pool.memory_bytes is None else pool.memory_bytes,
        )
        for pool, share in zip(pools, shares, strict=True)
    )


def _count_free(node: NodeView, pool: PoolRequest) -> int:
    return len(_list_free(node, pool))


def _list_free(node: NodeView, pool: PoolRequest) -> list[GpuView]:
    return [gpu for gpu in node.gpus if gpu.state is GpuState.FREE and matches(pool.series, gpu.series)]


def _take(node: NodeView, pool: PoolRequest, attempt: AttemptId) -> NodeView:
    taken = {gpu.uuid for gpu in _list_free(node, pool)[: pool.gpus_per_node]}
    gpus = tuple(replace(gpu, state=GpuState.HELD, attempt=attempt) if gpu.uuid in taken else gpu for gpu in node.gpus)
    cpus, memory_bytes = node.held.get(attempt, (0.0, 0))
    more = (cpus + (pool.cpus or 0.0), memory_bytes + (pool.memory_bytes or 0))
    return replace(node, gpus=gpus, held={**node.held, attempt: more})
