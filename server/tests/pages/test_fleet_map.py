import pytest

from starforge.contract.fleets import FleetDetail, FleetSummary, GpuDetail, HolderView, NodeDetail
from starforge.hardware.series import SeriesRegistry
from starforge_console.web.pages.fleet_map import (
    build_holds,
    build_shares,
    describe_kinds,
    list_counted,
    list_faults,
    list_known_series,
    list_others,
    list_strangers,
    list_unknown_gpus,
    name_element,
)

OURS = HolderView(attempt="j2k7abcdef-1-abcdef", phase="RUNNING", job="j2k7abcdef", name="sft", user="ada")
OTHER = HolderView(attempt="j2k7abcdeg-1-abcdef", phase="RUNNING", job="j2k7abcdeg", name="dpo", user="bob")


def gpu(index: int, state: str = "free", holder: HolderView | None = None, why: str = "") -> GpuDetail:
    return GpuDetail(
        uuid=f"GPU-{index}", index=index, name="NVIDIA H200", series="h200", state=state, holder=holder, why=why
    )


def node(*gpus: GpuDetail, attempts: tuple[HolderView, ...] = ()) -> NodeDetail:
    return NodeDetail(name="n1", fleet="gpu", status="ready", gpus=gpus, attempts=attempts)


def detail(*nodes: NodeDetail, unknown: tuple[str, ...] = ()) -> FleetDetail:
    return FleetDetail(fleet=FleetSummary(name="gpu", kind="node", network="bridge"), nodes=nodes, unknown_gpus=unknown)


def test_gpus_of_one_attempt_that_lie_side_by_side_share_a_cell_and_every_other_gpu_has_its_own() -> None:
    gpus = [gpu(index, "held", OURS) for index in (0, 1)]
    gpus += [gpu(2, "held", OTHER), gpu(3), gpu(4), gpu(5, "held", OURS), gpu(6, "quarantined"), gpu(7, "quarantined")]
    assert [hold.numbers for hold in build_holds(gpus)] == ["0\u20131", "2", "3", "4", "5", "6", "7"]


def test_a_holding_goes_on_in_the_next_row_after_eight_gpus() -> None:
    gpus = [gpu(index, "held", OURS) for index in range(16)]
    assert [hold.numbers for hold in build_holds(gpus)] == ["0\u20137", "8\u201315"]


def test_cells_follow_the_numbers_of_the_gpus_however_the_machine_lists_them() -> None:
    assert [hold.numbers for hold in build_holds([gpu(2), gpu(0), gpu(1)])] == ["0", "1", "2"]


def test_the_parts_of_a_bar_lie_side_by_side_and_fill_it() -> None:
    shares = build_shares({"free": 1, "held": 5, "foreign": 1, "withheld": 1})
    assert [(one.state, one.count) for one in shares] == [("held", 5), ("free", 1), ("withheld", 1), ("foreign", 1)]
    assert [one.from_percent for one in shares] == [0, 62.5, 75, 87.5]
    assert sum(one.percent for one in shares) == 100


def test_a_fleet_without_gpus_has_no_bar() -> None:
    assert build_shares({}) == []


def test_kinds_of_gpus_are_named_by_series_or_by_the_driver_where_nobody_knows_it() -> None:
    odd = gpu(2).model_copy(update={"series": None, "name": "NVIDIA Gizmo 9"})
    assert describe_kinds(node(gpu(0), gpu(1), odd)) == [("H200", 2), ("NVIDIA Gizmo 9", 1)]


def test_a_reason_that_several_gpus_share_is_told_once() -> None:
    told = list_faults(node(gpu(0, "foreign", why="process 7"), gpu(1, "foreign", why="process 7"), gpu(2)))
    assert [(one.why, one.numbers) for one in told] == [("process 7", "0, 1")]


def test_attempts_without_a_gpu_are_listed_apart_from_those_on_the_map_and_from_strangers() -> None:
    stranger = HolderView(attempt="j2k7abcdeh-1-abcdef", phase="RUNNING")
    ended = OTHER.model_copy(update={"attempt": "j2k7abcdeg-2-abcdef", "phase": "EXITED"})
    held = node(gpu(0, "held", OURS), attempts=(OURS, OTHER, stranger, ended))
    assert list_others(held) == [OTHER]
    assert [(one.attempt, one.is_running) for one in list_strangers(detail(held))] == [(stranger.attempt, True)]


def test_only_a_running_stranger_can_be_ended() -> None:
    waiting = HolderView(attempt="j2k7abcdeh-1-abcdef", phase="PREPARING")
    gone = HolderView(attempt="j2k7abcdei-1-abcdef", phase="EXITED")
    assert [one.is_running for one in list_strangers(detail(node(attempts=(waiting, gone))))] == [False]


def test_an_unknown_name_says_where_it_was_met_and_how_often() -> None:
    odd = [gpu(index).model_copy(update={"series": None, "name": "Gizmo"}) for index in range(3)]
    found = list_unknown_gpus(detail(node(*odd), unknown=("Gizmo",)))
    assert [(one.name, one.count, one.nodes) for one in found] == [("Gizmo", 3, ("n1",))]


def test_series_to_choose_from_are_the_built_in_ones_and_those_that_were_made() -> None:
    known = list_known_series(["gizmo-9"])
    assert {"h100-sxm", "l40s", "gizmo-9"} <= set(known)
    assert SeriesRegistry().find("NVIDIA H200") in known


def test_the_element_of_a_host_with_dots_in_its_name_can_be_selected() -> None:
    assert name_element("gpu7.example.org") == "node-gpu7_example_org"


@pytest.mark.parametrize(("status", "state"), [("ready", "free"), ("draining", "withheld"), ("away", "withheld")])
def test_the_map_calls_a_free_gpu_as_the_legend_counts_it(status: str, state: str) -> None:
    counted = list_counted(NodeDetail(name="n1", fleet="lab", status=status, gpus=(gpu(0), gpu(1))))
    assert [hold.state for hold in build_holds(counted)] == [state, state]
