"""What a node offers, from what it last told and how it was last reached: pure."""

from collections.abc import Callable
from dataclasses import replace

from starforge import __version__
from starforge.contract.executor import GpuState, GpuView, NodeView
from starforge.contract.wire import OLDEST_WIRE_VERSION, WIRE_VERSION, NodeReport
from starforge_console.domain.nodes import AWAY_AFTER_S, NodeState
from starforge_console.executors.node.directory import KnownNode


def build_view(node: KnownNode, now: float, series_of: Callable[[str], str | None]) -> NodeView:
    """The node's capacity; one that takes no jobs says why, and one that is away shows its GPUs as blocked."""
    why_not = find_reason(node, now)
    view = node.report.view if node.report is not None else None
    if view is None:
        unknown = node.report.view_unknown if node.report is not None else "it has told nothing yet"
        return NodeView(
            name=node.name, gpus=(), cpus=0.0, memory_bytes=0, accepts=False, why_not=why_not, gpus_unknown=unknown
        )
    gpus = tuple(replace(gpu, series=series_of(gpu.name)) for gpu in view.gpus)
    if is_away(node, now):
        gpus = tuple(_block(gpu) for gpu in gpus)
    accepts = view.accepts and not why_not
    return replace(view, name=node.name, gpus=gpus, accepts=accepts, why_not=why_not or view.why_not)


def find_reason(node: KnownNode, now: float) -> str:
    """Why nothing is placed on the node; empty when nothing of its standing or reach forbids it."""
    if node.standing is not NodeState.ACTIVE:
        return {
            NodeState.DRAINING: "draining: it takes no new jobs",
            NodeState.LOST: "marked lost",
            NodeState.REMOVED: "removed from the fleet",
        }[node.standing]
    report = node.report
    if report is None or node.heard_at is None:
        return f"no heartbeat was heard yet; {node.reach}" if node.reach else "no heartbeat was heard yet"
    silent_s = now - node.heard_at
    if silent_s > AWAY_AFTER_S:
        return f"no heartbeat for {silent_s:.0f} s"
    if node.reach is None:
        return "it was not called yet"
    if node.reach:
        return f"unreachable from console: {node.reach}"
    return _find_own_reason(node, report)


def is_away(node: KnownNode, now: float) -> bool:
    """Whether nobody knows what becomes of what runs there."""
    if node.standing is NodeState.LOST or node.heard_at is None or bool(node.reach):
        return True
    return now - node.heard_at > AWAY_AFTER_S


def _find_own_reason(node: KnownNode, report: NodeReport) -> str:
    if report.superseded:
        return "two daemons with one identity: end one, then run 'forgelet join' on the machine that stays"
    if report.oldest_wire > WIRE_VERSION or report.newest_wire < OLDEST_WIRE_VERSION:
        return f"its forgelet {report.version} and this console {__version__} do not understand each other: upgrade"
    if report.fence < node.fence:
        return "it was marked lost and still has to clean up for that"
    if report.view is None:
        return report.view_unknown or "its engine does not answer"
    return ""


def _block(gpu: GpuView) -> GpuView:
    """What is free or held behind a silence is neither; what was out of use before stays that."""
    if gpu.state in {GpuState.FREE, GpuState.HELD}:
        return replace(gpu, state=GpuState.BLOCKED, why="its machine does not answer")
    return gpu
