"""Fleets and nodes as messages of the API: what executors offer, what nodes told, and whose attempts these are."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from starforge.contract.executor import FleetView, GpuState, GpuView, NodeView
from starforge.contract.fleets import (
    FleetDetail,
    FleetSummary,
    GpuDetail,
    HolderView,
    NodeDetail,
    PullView,
)
from starforge.contract.ids import AttemptId
from starforge.contract.observation import NoSignal, Phase
from starforge.contract.wire import NodeReport
from starforge_console.domain.nodes import NodeStatus
from starforge_console.executors.node.viewing import find_standing
from starforge_console.fleets.administration import Administration
from starforge_console.fleets.directory import Directory
from starforge_console.fleets.hardware import HardwareRegistry
from starforge_console.fleets.served import ServedFleets
from starforge_console.ledger.database import Database
from starforge_console.ledger.fleets import Fleet
from starforge_console.ledger.lost_nodes import Holder, find_holders
from starforge_console.ledger.nodes import NodeRow

ASKED_S: Final = 5.0
"""How long a fleet may take to say what it offers."""
WITHHELD: Final = "withheld"


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetServices:
    """What the routes of fleets use."""

    ledger: Database
    fleets: ServedFleets
    directory: Directory
    hardware: HardwareRegistry
    administration: Administration


@dataclass(frozen=True, slots=True)
class _Seen:
    """A fleet as it was just asked, with what the ledger says of its machines and of the attempts there."""

    fleet: Fleet
    view: FleetView
    rows: Mapping[str, NodeRow]
    holders: Mapping[AttemptId, Holder]


async def load_detail(services: FleetServices, fleet: Fleet) -> FleetDetail:
    """Everything about one fleet now."""
    seen = await _look(services, fleet)
    nodes = tuple(_build_node(services, seen, view) for view in seen.view.nodes)
    unknown = {gpu.name for node in nodes for gpu in node.gpus if services.hardware.find(gpu.name) is None}
    held = [one for node in nodes for one in node.attempts if one.phase != Phase.EXITED.value]
    strangers = [one.attempt for one in held if one.job is None]
    return FleetDetail(
        fleet=build_summary(fleet, nodes),
        nodes=nodes,
        unknown_gpus=tuple(sorted(unknown)),
        unknown_attempts=tuple(sorted(strangers)),
    )


async def load_details(services: FleetServices) -> Sequence[FleetDetail]:
    """The same of all fleets, by name."""
    fleets = [fleet for _, fleet in sorted(services.fleets.fleets.items())]
    return await asyncio.gather(*(load_detail(services, fleet) for fleet in fleets))


def build_summary(fleet: Fleet, nodes: Sequence[NodeDetail]) -> FleetSummary:
    """The fleet as a line."""
    states = Counter(count_as(node, gpu) for node in nodes for gpu in node.gpus)
    return FleetSummary(
        name=fleet.name,
        kind=fleet.kind,
        network=fleet.network.value,
        user=fleet.user,
        require_max_runtime=fleet.requires_limit,
        nodes=len(nodes),
        ready=sum(node.status == NodeStatus.READY for node in nodes),
        gpus=dict(sorted(states.items())),
    )


def count_as(node: NodeDetail, gpu: GpuDetail) -> str:
    """A GPU's state in a sum: what is free on a machine that takes no jobs is nobody's to have."""
    return WITHHELD if gpu.state == GpuState.FREE and node.status != NodeStatus.READY else gpu.state


async def _look(services: FleetServices, fleet: Fleet) -> _Seen:
    view = await _ask(services, fleet)
    rows = {row.name: row for row in services.directory.rows(fleet.name)}
    reports = [report for name in rows if (report := services.directory.find_report(name)) is not None]
    attempts = {attempt for report in reports for attempt in report.attempts}
    attempts |= {attempt for node in view.nodes for attempt in node.held}
    holders = await services.ledger.read(lambda c: find_holders(c, attempts))
    return _Seen(fleet, view, rows, holders)


async def _ask(services: FleetServices, fleet: Fleet) -> FleetView:
    executor = services.fleets.get(fleet.name)
    if executor is None:
        return FleetView(fleet=fleet.name, nodes=(), complete=False, why_not="it was deleted just now")
    try:
        async with asyncio.timeout(ASKED_S):
            answer = await executor.capacity()
    except TimeoutError:
        return FleetView(fleet=fleet.name, nodes=(), complete=False, why_not=f"no answer within {ASKED_S:g} s")
    if isinstance(answer, NoSignal):
        return FleetView(fleet=fleet.name, nodes=(), complete=False, why_not=answer.reason)
    return answer


def _build_node(services: FleetServices, seen: _Seen, view: NodeView) -> NodeDetail:
    row = seen.rows.get(view.name)
    report = services.directory.find_report(view.name) if row is not None else None
    phases = dict.fromkeys(view.held, "") | dict(report.attempts if report is not None else {})
    detail = NodeDetail(
        name=view.name,
        fleet=seen.fleet.name,
        status=(NodeStatus.READY if view.accepts else NodeStatus.UNFIT).value,
        why=view.why_not,
        cpus=view.cpus,
        memory_bytes=view.memory_bytes,
        gpus=tuple(_build_gpu(gpu, phases, seen.holders) for gpu in view.gpus),
        gpus_unknown=view.gpus_unknown,
        attempts=tuple(_build_holder(attempt, phases, seen.holders) for attempt in sorted(phases)),
    )
    if row is None:
        return detail
    return detail.model_copy(update=_told(row, report) | _stand(services.directory, row))


def _stand(directory: Directory, row: NodeRow) -> dict[str, object]:
    """How the node is: the same word as placement goes by."""
    heard, known = directory.heard(row.name), directory.find_known(row.name)
    standing = None if known is None else find_standing(known, directory.clock.monotonic())
    shown = {} if standing is None else {"status": standing.status.value}
    if standing is not None and standing.status is not NodeStatus.READY:
        shown["why"] = standing.why  # one that is ready may still complain, in its own words
    return {**shown, "reach": heard.reach, "heard_s": heard.heard_s}


def _told(row: NodeRow, report: NodeReport | None) -> dict[str, object]:
    told: dict[str, object] = {
        "state": row.state.value,
        "hostname": row.hostname,
        "advertise": row.advertise,
        "version": row.version,
        "legacy": row.legacy,
        "joined_at": row.joined_at,
        "joined_from": row.joined_from,
        "heartbeat_at": row.heartbeat_at,
        "fence": row.fence,
        "epoch": row.epoch,
    }
    if report is None:
        return told
    told["pulls"] = tuple(
        PullView(image=pull.image, done_bytes=pull.done_bytes, total_bytes=pull.total_bytes) for pull in report.pulls
    )
    if row.heartbeat_at is not None:
        told["skew_s"] = report.at - row.heartbeat_at
    if report.disk is not None:
        told |= {"disk_free_bytes": report.disk.free_bytes, "disk_total_bytes": report.disk.total_bytes}
    return told


def _build_gpu(gpu: GpuView, phases: Mapping[AttemptId, str], holders: Mapping[AttemptId, Holder]) -> GpuDetail:
    return GpuDetail(
        uuid=gpu.uuid,
        index=gpu.index,
        name=gpu.name,
        series=gpu.series,
        memory_bytes=gpu.memory_bytes,
        state=gpu.state.value,
        why=gpu.why,
        holder=None if gpu.attempt is None else _build_holder(gpu.attempt, phases, holders),
    )


def _build_holder(
    attempt: AttemptId, phases: Mapping[AttemptId, str], holders: Mapping[AttemptId, Holder]
) -> HolderView:
    holder = holders.get(attempt)
    phase = phases.get(attempt, "")
    if holder is None:
        return HolderView(attempt=attempt, phase=phase)
    return HolderView(attempt=attempt, phase=phase, job=holder.job, name=holder.name, user=holder.user)
