"""What a node offers, from what it last told and how it was last reached: pure."""

from collections.abc import Callable
from dataclasses import replace

from starforge import __version__
from starforge.contract.executor import GpuState, GpuView, NodeView
from starforge.contract.wire import OLDEST_WIRE_VERSION, WIRE_VERSION, NodeReport
from starforge.said.sentence import say
from starforge_console.domain.nodes import NodeFacts, NodeStatus, Standing, decide_standing, explain_unreachable
from starforge_console.executors.node.directory import KnownNode


def build_view(node: KnownNode, now: float, series_of: Callable[[str], str | None]) -> NodeView:
    """The node's capacity; one that takes no jobs says why, and one that is away shows its GPUs as blocked.

    What one that takes jobs complains of stays in its words: a GPU that is lost shows nowhere else.
    """
    standing = find_standing(node, now)
    accepts, why_not = standing.status is NodeStatus.READY, standing.refusal
    view = node.report.view if node.report is not None else None
    if view is None:
        unknown = node.report.view_unknown if node.report is not None else say("host.told_nothing")
        return NodeView(
            name=node.name, gpus=(), cpus=0.0, memory_bytes=0, accepts=False, why_not=why_not, gpus_unknown=unknown
        )
    gpus = tuple(replace(gpu, series=series_of(gpu.name)) for gpu in view.gpus)
    if standing.is_silent:
        gpus = tuple(_block(gpu) for gpu in gpus)
    return replace(view, name=node.name, gpus=gpus, accepts=accepts, why_not=view.why_not if accepts else why_not)


def find_standing(node: KnownNode, now: float) -> Standing:
    """How the node is at the moment `now` of the monotonic clock, and why."""
    report = node.report
    reach = explain_unreachable(node.reach, node.advertise, node.joined_from) if node.reach else node.reach
    return decide_standing(
        NodeFacts(
            wanted=node.standing,
            drained_why=node.drained_why,
            heard_s=None if node.heard_at is None or report is None else max(0.0, now - node.heard_at),
            reach=reach,
            two_daemons=node.two_daemons or (report is not None and report.superseded),
            unfit="" if report is None else _find_own_reason(node, report),
        )
    )


def _find_own_reason(node: KnownNode, report: NodeReport) -> str:
    if report.oldest_wire > WIRE_VERSION or report.newest_wire < OLDEST_WIRE_VERSION:
        return say("host.versions", version=report.version, own=__version__)
    if report.fence < node.fence:
        return say("host.to_clean_up")
    if report.view is None:
        return report.view_unknown or say("host.engine_silent")
    return "" if report.view.accepts else report.view.why_not or say("host.takes_none")


def _block(gpu: GpuView) -> GpuView:
    """What is free or held behind a silence is neither; what was out of use before stays that."""
    if gpu.state in {GpuState.FREE, GpuState.HELD}:
        return replace(gpu, state=GpuState.BLOCKED, why=say("host.no_signal"))
    return gpu
