"""What needs somebody's attention, worst first: machines, GPUs and runs of the reader that do not go on by themselves.

Pure: made of what the fleets and the ledger told.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from starforge.contract.diagnosis import DiagnosisView
from starforge.contract.executor import GpuState
from starforge.contract.fleets import FleetDetail, NodeDetail
from starforge_console.domain.nodes import NodeStatus
from starforge_console.ledger.listing import JobLine
from starforge_console.web.pages.fleet_map import list_faults, list_strangers, list_unknown_gpus

_WANTED: Final = frozenset({NodeStatus.READY.value, NodeStatus.DRAINING.value})
"""How machines are that are as somebody wants them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Concern:
    """One thing to look at. `kind` chooses the words; `told` is what was said of it, in English."""

    kind: str
    fleet: str = ""
    node: str = ""
    status: str = ""
    told: str = ""
    count: int = 0
    name: str = ""
    line: JobLine | None = None
    cause: DiagnosisView | None = None


def list_concerns(
    details: Sequence[FleetDetail],
    failed: Sequence[JobLine],
    causes: Mapping[str, DiagnosisView] = MappingProxyType({}),
) -> list[Concern]:
    """Everything that needs attention: `failed` are the reader's jobs that failed for good of late.

    `causes` says by job why, where that is known.
    """
    if not details:
        return [Concern(kind="no_fleet")]
    empty = [] if any(detail.nodes for detail in details) else [Concern(kind="no_node", fleet=details[0].fleet.name)]
    of_fleets = [concern for detail in details for concern in _of_fleet(detail)]
    return [*empty, *of_fleets, *(Concern(kind="failed", line=line, cause=causes.get(line.job.id)) for line in failed)]


def _of_fleet(detail: FleetDetail) -> Iterator[Concern]:
    fleet = detail.fleet.name
    for node in detail.nodes:
        yield from _of_node(fleet, node)
    for gpu in list_unknown_gpus(detail):
        yield Concern(kind="unknown_gpu", fleet=fleet, node=", ".join(gpu.nodes), name=gpu.name, count=gpu.count)
    strangers = list_strangers(detail)
    if strangers:
        nodes = ", ".join(dict.fromkeys(one.node for one in strangers))
        yield Concern(kind="strangers", fleet=fleet, node=nodes, count=len(strangers))


def _of_node(fleet: str, node: NodeDetail) -> Iterable[Concern]:
    if node.status not in _WANTED:
        yield Concern(kind="node", fleet=fleet, node=node.name, status=node.status, told=node.why, count=len(node.gpus))
    for fault in list_faults(node):
        if fault.state == GpuState.QUARANTINED:
            yield Concern(kind="quarantined", fleet=fleet, node=node.name, name=fault.numbers, told=fault.why)
