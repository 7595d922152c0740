"""Claims: a view of capacity, less what was given away since the machines were asked."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from starforge.containers.spec import decide_share
from starforge.contract.executor import FleetView, GpuState, GpuView, NodeView, Target
from starforge.contract.ids import AttemptId
from starforge.contract.launch import PoolRequest
from starforge.hardware.series import matches
from starforge.said.sentence import say
from starforge_console.domain.job import JobInFlight

UNKNOWN_HOLDER: Final = say("room.held_unknown")


def claim_targets(view: FleetView, in_flight: Sequence[JobInFlight]) -> FleetView:
    """The view less every attempt that is targeted there and that its machine does not list yet.

    GPUs that are held for an attempt which is not among `in_flight` say so: nobody here waits for its end.
    """
    listed = {attempt for node in view.nodes for attempt in node.held}
    unknown = listed - {job.attempt.id for job in in_flight}
    if unknown:
        view = replace(view, nodes=tuple(_mark_unknown(node, unknown) for node in view.nodes))
    for job in in_flight:
        if job.attempt.target.fleet == view.fleet and job.attempt.id not in listed:
            view = claim(view, job.attempt.target, job.attempt.id, job.pools)
    return view


def claim(view: FleetView, target: Target, attempt: AttemptId, pools: Sequence[PoolRequest]) -> FleetView:
    """The view once `attempt` has what it asks for at `target`; which GPUs it gets is the machine's choice."""
    spread = target.spread or ((target.node,),) * len(pools)
    for pool, names in zip(pools, spread, strict=True):
        view = claim_pool(view, names, attempt, pool)
    return view


def claim_pool(view: FleetView, names: Collection[str], attempt: AttemptId, pool: PoolRequest) -> FleetView:
    """The view once `attempt` has on each of the machines `names` what `pool` asks for on one."""
    nodes = tuple(_claim_on(one, attempt, pool) if one.name in names else one for one in view.nodes)
    return replace(view, nodes=nodes)


def give_back(view: FleetView, node: str, attempt: AttemptId) -> FleetView:
    """The view once `attempt` holds nothing on `node` any more."""
    nodes = tuple(_give_back_on(one, attempt) if one.name == node else one for one in view.nodes)
    return replace(view, nodes=nodes)


def _give_back_on(node: NodeView, attempt: AttemptId) -> NodeView:
    gpus = tuple(
        replace(gpu, state=GpuState.FREE, attempt=None, why="")
        if gpu.state is GpuState.HELD and gpu.attempt == attempt
        else gpu
        for gpu in node.gpus
    )
    return replace(node, gpus=gpus, held={held: what for held, what in node.held.items() if held != attempt})


def _mark_unknown(node: NodeView, unknown: Collection[AttemptId]) -> NodeView:
    gpus = (replace(gpu, why=UNKNOWN_HOLDER) if gpu.attempt in unknown else gpu for gpu in node.gpus)
    return replace(node, gpus=tuple(gpus))


def _claim_on(node: NodeView, attempt: AttemptId, pool: PoolRequest) -> NodeView:
    # Where GPUs are not known, a default share counts as the largest that it could be.
    share = decide_share(pool, node.cpus, node.memory_bytes, len(node.gpus))
    cpus, memory_bytes = node.held.get(attempt, (0.0, 0))
    held = (cpus + share.cpus, memory_bytes + share.memory_bytes)
    return replace(node, gpus=_take(node.gpus, attempt, pool), held={**node.held, attempt: held})


def _take(gpus: tuple[GpuView, ...], attempt: AttemptId, pool: PoolRequest) -> tuple[GpuView, ...]:
    left = pool.gpus_per_node
    taken = []
    for gpu in sorted(gpus, key=lambda one: one.index):
        fits = gpu.state is GpuState.FREE and matches(pool.series, gpu.series)
        taken.append(replace(gpu, state=GpuState.HELD, attempt=attempt) if fits and left > 0 else gpu)
        left -= fits and left > 0
    return tuple(taken)
