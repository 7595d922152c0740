"""Why a queued job waits: the reasons, each with the places that give it, and as a text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from starforge.contract.executor import FleetView, NoRoom
from starforge.said.sentence import say, say_list

_REASONS_SHOWN: Final = 4
_NODES_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class WaitReason:
    """One reason, and the machines or the fleet that give it: those that are named, and how many more there are.

    `starts_by` is when there is room for the job at the latest (Unix seconds), where it is promised a start.
    """

    reason: str
    places: tuple[str, ...] = ()
    more: int = 0
    starts_by: float | None = None


def explain_unserved(fleet: str) -> WaitReason:
    """No executor serves the fleet that the job names: it was deleted, and nothing brings it back by itself."""
    return WaitReason(say("wait.unserved"), (fleet,))


def explain_unlimited(fleet: str) -> WaitReason:
    """The fleet takes only jobs with a time limit, and the job has none."""
    return WaitReason(say("wait.unlimited"), (fleet,))


def explain_maintenance(by: str, reason: str) -> WaitReason:
    """Nothing starts until an administrator ends the maintenance."""
    told = say("wait.maintenance_why", by=by, why=reason) if reason else say("wait.maintenance", by=by)
    return WaitReason(told, (say("wait.console"),))


def explain_no_room(view: FleetView, no_room: NoRoom) -> list[WaitReason]:
    """Each reason once, with the machines that give it: of a large fleet the first ones stand for the rest."""
    if not view.nodes:
        return [WaitReason(view.why_not or say("wait.no_machine"), (view.fleet,))]
    nodes: dict[str, list[str]] = {}
    for node, why in no_room.per_node.items():
        nodes.setdefault(why, []).append(node)
    told = [_name_some(why, names) for why, names in list(nodes.items())[:_REASONS_SHOWN]]
    left = sum(map(len, list(nodes.values())[_REASONS_SHOWN:]))
    if left:
        told.append(WaitReason(say("wait.no_room_either"), more=left))
    if no_room.never:
        told.append(WaitReason(say("wait.never"), (view.fleet,)))
    return told


def explain_nowhere(others: Sequence[WaitReason], answers: Sequence[tuple[FleetView, NoRoom]]) -> list[WaitReason]:
    """Why a job is placed nowhere: `others`, then the fleets that answered, those first that have room one day.

    Of fleets that are too small only the names are told, unless nothing else could run the job.
    """
    is_hopeless = not others and all(no_room.never for _, no_room in answers)
    told = [
        why for view, no_room in answers if is_hopeless or not no_room.never for why in explain_no_room(view, no_room)
    ]
    unable = [] if is_hopeless else [view.fleet for view, no_room in answers if no_room.never]
    return [*others, *told, *([_name_some(say("wait.unable"), unable)] if unable else [])]


def describe_waiting(reasons: Sequence[WaitReason]) -> str:
    """The reasons as one text, in their order."""
    told = [_describe(reason) for reason in reasons]
    if not told:
        return say("wait.no_fleet")
    return told[0] if len(told) == 1 else say_list("list.semicolon", told)


def _name_some(why: str, nodes: Sequence[str]) -> WaitReason:
    return WaitReason(why, tuple(nodes[:_NODES_NAMED]), max(0, len(nodes) - _NODES_NAMED))


def _describe(reason: WaitReason) -> str:
    if not reason.places:
        return say("wait.elsewhere", n=reason.more, reason=reason.reason) if reason.more else reason.reason
    places = reason.places[0] if len(reason.places) == 1 else say_list("list.comma", reason.places)
    if reason.more:
        return say("wait.at_more", places=places, n=reason.more, reason=reason.reason)
    return say("wait.at", places=places, reason=reason.reason)
