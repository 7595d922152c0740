"""Why a queued job waits: the reasons, each with the places that give it, and as a text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from starforge.contract.executor import FleetView, NoRoom

_REASONS_SHOWN: Final = 4
_NODES_NAMED: Final = 3
_NO_FLEET: Final = "there is no fleet"
_UNSERVED: Final = "not served here any more: stop the job and submit it again for another fleet ('sf fleet ls')"
_NEVER: Final = "could not run it if it were empty: stop the job and ask for less, or wait until a larger machine joins"


@dataclass(frozen=True, slots=True)
class WaitReason:
    """One reason, and the machines or the fleet that give it: those that are named, and how many more there are."""

    reason: str
    places: tuple[str, ...] = ()
    more: int = 0


def explain_unserved(fleet: str) -> WaitReason:
    """No executor serves the fleet that the job names: it was deleted, and nothing brings it back by itself."""
    return WaitReason(_UNSERVED, (fleet,))


def explain_unlimited(fleet: str) -> WaitReason:
    """The fleet takes only jobs with a time limit, and the job has none."""
    return WaitReason("takes only jobs that have a time limit (max_runtime)", (fleet,))


def explain_maintenance(by: str, reason: str) -> WaitReason:
    """Nothing starts until an administrator ends the maintenance."""
    told = f"in maintenance by {by}" + (f" ({reason})" if reason else "")
    return WaitReason(f"{told}: jobs start again once an administrator ends it", ("the console",))


def explain_no_room(view: FleetView, no_room: NoRoom) -> list[WaitReason]:
    """Each reason once, with the machines that give it: of a large fleet the first ones stand for the rest."""
    if not view.nodes:
        return [WaitReason(view.why_not or "no machine", (view.fleet,))]
    nodes: dict[str, list[str]] = {}
    for node, why in no_room.per_node.items():
        nodes.setdefault(why, []).append(node)
    told = [_name_some(why, names) for why, names in list(nodes.items())[:_REASONS_SHOWN]]
    left = sum(map(len, list(nodes.values())[_REASONS_SHOWN:]))
    if left:
        told.append(WaitReason("no room either", more=left))
    if no_room.never:
        told.append(WaitReason(_NEVER, (view.fleet,)))
    return told


def describe_waiting(reasons: Sequence[WaitReason]) -> str:
    """The reasons as one text, in their order."""
    return "; ".join(map(_describe, reasons)) or _NO_FLEET


def _name_some(why: str, nodes: Sequence[str]) -> WaitReason:
    return WaitReason(why, tuple(nodes[:_NODES_NAMED]), max(0, len(nodes) - _NODES_NAMED))


def _describe(reason: WaitReason) -> str:
    if not reason.places:
        return f"{reason.more} more: {reason.reason}" if reason.more else reason.reason
    more = f" and {reason.more} more" if reason.more else ""
    return f"{', '.join(reason.places)}{more}: {reason.reason}"
