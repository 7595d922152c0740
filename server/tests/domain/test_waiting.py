from starforge.contract.executor import FleetView, NodeView, NoRoom
from starforge_console.domain.waiting import (
    WaitReason,
    describe_waiting,
    explain_no_room,
    explain_nowhere,
    explain_unserved,
)


def view_of(*names: str, why_not: str = "", fleet: str = "lab") -> FleetView:
    nodes = tuple(NodeView(name=name, gpus=(), cpus=1.0, memory_bytes=1) for name in names)
    return FleetView(fleet=fleet, nodes=nodes, complete=not why_not, why_not=why_not)


def test_machines_that_give_the_same_reason_stand_together_and_three_are_named() -> None:
    names = [f"n{number}" for number in range(5)]
    told = explain_no_room(view_of(*names), NoRoom(per_node=dict.fromkeys(names, "2 GPUs held; 1 broken: Xid 79")))
    assert told == [WaitReason("2 GPUs held; 1 broken: Xid 79", ("n0", "n1", "n2"), 2)]
    assert describe_waiting(told) == "n0, n1, n2 and 2 more: 2 GPUs held; 1 broken: Xid 79"


def test_of_many_reasons_four_are_told_and_the_machines_left_are_counted() -> None:
    reasons = {f"n{number}": f"reason {number}" for number in range(6)}
    told = explain_no_room(view_of(*reasons), NoRoom(per_node=reasons, never=True))
    assert [reason.places for reason in told] == [("n0",), ("n1",), ("n2",), ("n3",), (), ("lab",)]
    assert told[4] == WaitReason("no room either", more=2)
    assert "; 2 more: no room either; lab: could not run it" in describe_waiting(told)


def test_a_fleet_without_machines_and_one_that_nobody_serves_are_told_by_name() -> None:
    away = explain_no_room(view_of(why_not="no route"), NoRoom(per_node={}))
    assert describe_waiting([*away, explain_unserved("old")]) == (
        "lab: no route; old: not served here any more: stop the job and submit it again for another fleet"
        " ('sf fleet ls')"
    )
    assert describe_waiting([]) == "there is no fleet"


def test_whoever_waits_for_one_fleet_is_not_told_to_ask_for_less_as_others_are_too_small() -> None:
    small = [
        (view_of("s1", fleet=name), NoRoom(per_node={"s1": "0 of 0 GPUs free"}, never=True)) for name in ("s", "t")
    ]
    full = (view_of("n1"), NoRoom(per_node={"n1": "0 of 8 GPUs free"}))
    told = describe_waiting(explain_nowhere([], [small[0], full, small[1]]))
    assert told == "n1: 0 of 8 GPUs free; s, t: could not run it if it were empty"
    assert "s: could not run it if it were empty: stop the job and ask for less" in describe_waiting(
        explain_nowhere([], small)
    )
    closed = WaitReason("is closed", ("lab",))
    assert describe_waiting(explain_nowhere([closed], small[:1])) == (
        "lab: is closed; s: could not run it if it were empty"
    )
