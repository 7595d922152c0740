"""What a cluster offers, from what Slurm says of its nodes and jobs: pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from starforge.contract.executor import FleetView, GpuState, GpuView, NodeView
from starforge.contract.ids import AttemptId
from starforge.said.sentence import say
from starforge_console.executors.slurm.decode.notations import parse_gres
from starforge_console.executors.slurm.native import NativeJob, NativeNode, NativePartition
from starforge_console.executors.slurm.states import name_gpu, name_gpus

_MIB: Final = 1024**2
_TAKES: Final = frozenset(
    {"IDLE", "MIXED", "ALLOCATED", "COMPLETING", "PLANNED", "CLOUD", "POWERED_DOWN", "POWER_SAVE"}
)
"""Words for a node that do not keep jobs from it. Any other does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """How types of GPUs and series are matched.

    Attributes:
        gres: The fleet's own map from series to gres, of which one without a type stands for GPUs that have none; empty
            where types speak for themselves.
        series_of: The series of a GPU that is called so, or None.

    """

    gres: Mapping[str, str]
    series_of: Callable[[str], str | None]

    def find_series(self, gpu_type: str) -> str | None:
        """The series of a type."""
        if self.gres:
            return next((series for series, gres in self.gres.items() if gres.partition(":")[2] == gpu_type), None)
        return self.series_of(gpu_type)


def build_view(
    fleet: str,
    partition: NativePartition,
    nodes: Sequence[NativeNode],
    held: Mapping[AttemptId, Sequence[NativeJob]],
    naming: Naming,
) -> FleetView:
    """The partition's nodes; `held` are the jobs of ours that hold something, by attempt."""
    views = [_view_node(node, partition, held, naming) for node in nodes if partition.name in node.partitions]
    return FleetView(fleet=fleet, nodes=tuple(sorted(views, key=lambda view: view.name)))


def list_gres(nodes: Sequence[NativeNode], naming: Naming) -> dict[str, str]:
    """What each series is called in the cluster: as the settings say, else by the types that nodes tell."""
    if naming.gres:
        return dict(naming.gres)
    found: dict[str, str] = {}
    for node in nodes:
        for gres in parse_gres(node.gres):
            series = naming.series_of(gres.type) if gres.name == "gpu" and gres.type else None
            if series is not None:
                found.setdefault(series, f"gpu:{gres.type}")
    return found


def count_gpus(node: NativeNode) -> int:
    """How many GPUs a node has."""
    return len(_list_types(node))


def _view_node(
    node: NativeNode,
    partition: NativePartition,
    held: Mapping[AttemptId, Sequence[NativeJob]],
    naming: Naming,
) -> NodeView:
    why_not = _find_refusal(node, partition)
    here = {attempt: [job for job in jobs if node.name in job.nodes] for attempt, jobs in held.items()}
    return NodeView(
        name=node.name,
        gpus=_view_gpus(node, here, naming),
        cpus=float(node.cpus),
        memory_bytes=node.memory_mb * _MIB,
        held={attempt: _measure(jobs) for attempt, jobs in here.items() if jobs},
        accepts=not why_not,
        why_not=why_not,
    )


def _find_refusal(node: NativeNode, partition: NativePartition) -> str:
    if not partition.is_up:
        return say("slurm.partition_down", partition=partition.name)
    words = [state for state in node.states if state not in _TAKES]
    if not words:
        return ""
    state = ", ".join(words)
    return (
        say("slurm.node_state_why", state=state, why=node.reason)
        if node.reason
        else say("slurm.node_state", state=state)
    )


def _view_gpus(node: NativeNode, here: Mapping[AttemptId, Sequence[NativeJob]], naming: Naming) -> tuple[GpuView, ...]:
    ours = {
        index: attempt
        for attempt, jobs in here.items()
        for job in jobs
        for name, index in name_gpus(job)
        if name == node.name
    }
    taken = _list_taken(node)
    views = []
    for index, gpu_type in enumerate(_list_types(node)):
        attempt = ours.get(index)
        state = GpuState.HELD if attempt else GpuState.FOREIGN if index in taken else GpuState.FREE
        views.append(
            GpuView(
                uuid=name_gpu(node.name, index),
                index=index,
                name=gpu_type or "gpu",
                series=naming.find_series(gpu_type),
                memory_bytes=None,
                state=state,
                attempt=attempt,
                why=say("slurm.gpu_foreign") if state is GpuState.FOREIGN else "",
            )
        )
    return tuple(views)


def _list_types(node: NativeNode) -> list[str]:
    """The type of each of the node's GPUs, in the order in which Slurm counts them."""
    return [gres.type for gres in parse_gres(node.gres) if gres.name == "gpu" for _ in range(gres.count)]


def _list_taken(node: NativeNode) -> set[int]:
    """Which of its GPUs somebody holds; where only their number is told, the last ones of the type are meant."""
    first, ranges = 0, {}
    for gres in parse_gres(node.gres):
        if gres.name == "gpu":
            ranges[gres.type] = range(first, first + gres.count)
            first += gres.count
    taken: set[int] = set()
    for gres in parse_gres(node.gres_used):
        if gres.name != "gpu" or gres.type not in ranges:
            continue
        places = ranges[gres.type]
        taken |= set(gres.indices) if gres.indices is not None else set(places[len(places) - gres.count :])
    return taken


def _measure(jobs: Sequence[NativeJob]) -> tuple[float, int]:
    """CPUs and bytes of memory that these hold on one of their nodes."""
    cpus = sum(job.cpus / max(1, len(job.nodes)) for job in jobs)
    memory_mb = sum(job.memory_mb / max(1, len(job.nodes)) for job in jobs)
    return cpus, int(memory_mb * _MIB)
