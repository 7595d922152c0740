from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from starforge.contract.executor import FleetView, GpuState, GpuView, NodeView, NoRoom, Target
from starforge.contract.ids import AttemptId
from starforge.contract.launch import PoolRequest
from starforge_console.domain.claims import claim
from starforge_console.domain.placement import ONE_NODE, Fit, decide_fit, place_on_nodes, place_on_one_node

GIB = 1024**3
OTHER = AttemptId("jabcdefghi-1-000000")
HOLDER = "jabcdefghi"
THIS = AttemptId("jbbbbbbbbb-1-000001")


@dataclass(frozen=True)
class Ask:
    pools: tuple[PoolRequest, ...]
    attempt: AttemptId = THIS


def ask(gpus: int = 1, **changes: object) -> Ask:
    pool = PoolRequest(name="main", nodes=1, gpus_per_node=gpus)
    return Ask((replace(pool, **changes),))  # type: ignore[arg-type]  # fields by name


def node(name: str, free: int, taken: int = 0, series: str = "h100", **changes: object) -> NodeView:
    states = [GpuState.HELD] * taken + [GpuState.FREE] * free
    gpus = tuple(
        GpuView(
            uuid=f"GPU-{name}-{index}",
            index=index,
            name="",
            series=series,
            memory_bytes=None,
            state=state,
            attempt=OTHER if state is GpuState.HELD else None,
        )
        for index, state in enumerate(states)
    )
    return replace(NodeView(name=name, gpus=gpus, cpus=64, memory_bytes=256 * GIB), **changes)  # type: ignore[arg-type]  # fields by name


def find_node(wish: Ask, view: FleetView) -> str:
    placed = place_on_one_node(wish, view)
    assert isinstance(placed, Target), placed
    assert (placed.fleet, THIS in placed.name) == ("f", True)
    return placed.node


def fleet(*nodes: NodeView, complete: bool = True) -> FleetView:
    return FleetView(fleet="f", nodes=nodes, complete=complete)


def test_the_machine_with_most_free_gpus_takes_it() -> None:
    assert find_node(ask(2), fleet(node("a", 3), node("b", 5, 3), node("c", 1))) == "b"


def test_ties_go_by_name() -> None:
    assert find_node(ask(), fleet(node("b", 4), node("a", 4))) == "a"


def test_only_gpus_of_the_series_count() -> None:
    view = fleet(node("a", 8, series="a100"), node("b", 1))
    assert find_node(ask(series="h100"), view) == "b"
    assert find_node(ask(), view) == "a"
    assert place_on_one_node(ask(2, series="h100"), view) == NoRoom(
        per_node={"a": "0 of 0 h100 GPUs free, 2 asked for", "b": "1 of 1 h100 GPUs free, 2 asked for"}, never=True
    )


def test_a_family_is_met_by_each_of_its_forms_and_on_one_machine_by_several_together() -> None:
    sxm, pcie = node("a", 2, series="h100-sxm"), node("b", 4, series="h100-pcie")
    assert find_node(ask(4, series="h100"), fleet(sxm, pcie)) == "b"
    assert find_node(ask(2, series="h100-sxm"), fleet(sxm, pcie)) == "a"
    mixed = replace(sxm, gpus=(*sxm.gpus, *pcie.gpus))
    assert find_node(ask(6, series="h100"), fleet(mixed)) == "a"
    (claimed,) = claim(fleet(mixed), Target(fleet="gpu", node="a", name="x"), THIS, ask(6, series="h100").pools).nodes
    assert all(gpu.attempt == THIS for gpu in claimed.gpus)


def test_what_fits_once_somebody_ends_is_not_never() -> None:
    answer = place_on_one_node(ask(4), fleet(node("a", 2, 2)))
    assert answer == NoRoom(
        per_node={"a": "2 of 4 GPUs free, 4 asked for (2 held by jobs of this console)"}, never=False
    )


def test_the_reason_says_who_holds_what_is_not_free() -> None:
    states = {
        GpuState.FOREIGN: ["held by containers of another install (lab)"] * 2,
        GpuState.QUARANTINED: ["uncorrected ECC"],
        GpuState.HELD: ["", "", "held by nobody that we know"],
        GpuState.FREE: [""],
    }
    gpus = tuple(
        GpuView(uuid=f"{state}-{why}-{n}", index=n, name="X1", series="h100", memory_bytes=None, state=state, why=why)
        for state, whys in states.items()
        for n, why in enumerate(whys)
    )
    view = fleet(node("a", 0, gpus=(*gpus, replace(gpus[0], series=None, why=""))))
    assert place_on_one_node(ask(2, series="h100"), view) == NoRoom(
        per_node={
            "a": "1 of 7 h100 GPUs free, 2 asked for (2 foreign: held by containers of another install (lab),"
            " 1 quarantined: uncorrected ECC, 2 held by jobs of this console, 1 held by nobody that we know, 1 more of"
            " a model without a known series: X1)"
        }
    )


def test_never_is_not_said_while_a_machine_is_silent() -> None:
    answer = place_on_one_node(ask(8), fleet(node("a", 2), complete=False))
    assert isinstance(answer, NoRoom)
    assert not answer.never


def test_cpus_and_memory_are_counted_with_their_numbers() -> None:
    busy = node("a", 4, held={OTHER: (60.0, 250 * GIB)})
    assert place_on_one_node(ask(cpus=8, memory_bytes=GIB), fleet(busy)) == NoRoom(
        per_node={"a": f"4 of 64 CPUs free (held by {HOLDER}: 60), 8 asked for"}
    )
    assert place_on_one_node(ask(cpus=1, memory_bytes=8 * GIB), fleet(busy)) == NoRoom(
        per_node={"a": f"6.0 of 256.0 GiB free (held by {HOLDER}: 250.0), 8.0 asked for"}
    )


def test_those_that_hold_most_are_named_and_on_a_large_fleet_nobody_is() -> None:
    held = {AttemptId(f"j23456{one * 4}-1-000000"): (float(place), 0) for place, one in enumerate("abcdefg")}
    busy = node("a", 4, cpus=24, held=held)
    answer = place_on_one_node(ask(cpus=8), fleet(busy))
    assert isinstance(answer, NoRoom)
    assert answer.per_node["a"].startswith("3 of 24 CPUs free (held by j23456gggg: 6; j23456ffff: 5; ")
    assert "; j23456cccc: 2; 2 more), 8 asked for" in answer.per_node["a"]
    others = [node(name, 4, cpus=24, held=held) for name in "bcd"]
    large = place_on_one_node(ask(cpus=8), fleet(busy, *others))
    assert isinstance(large, NoRoom)
    assert set(large.per_node.values()) == {"3 of 24 CPUs free, 8 asked for"}


def test_a_share_that_the_job_did_not_ask_for_is_called_a_default() -> None:
    small = node("a", 0, cpus=2, memory_bytes=4 * GIB, held={OTHER: (1.0, 0)})
    assert place_on_one_node(ask(0), fleet(small)) == NoRoom(
        per_node={
            "a": f"1 of 2 CPUs free (held by {HOLDER}: 1), 1.8 asked for (the default share of a job without"
            " GPUs; resources.cpus in config.yaml changes it)"
        }
    )
    full = node("a", 0, held={OTHER: (1.0, 255 * GIB)})
    answer = place_on_one_node(ask(0), fleet(full))
    assert isinstance(answer, NoRoom)
    assert "4.0 asked for (the default share of a job without GPUs; resources.memory_gib" in answer.per_node["a"]


def test_a_machine_that_takes_nothing_says_why_and_may_take_it_later() -> None:
    drained = node("a", 8, accepts=False, why_not="draining")
    assert place_on_one_node(ask(), fleet(drained)) == NoRoom(per_node={"a": "draining"}, never=False)


def test_a_machine_whose_gpus_are_not_known_takes_jobs_without_gpus() -> None:
    blind = node("a", 0, gpus_unknown="nvidia-smi is missing")
    assert find_node(ask(0), fleet(blind)) == "a"


def test_unknown_gpus_are_no_reason_to_say_never() -> None:
    blind = node("a", 0, gpus_unknown="nvidia-smi is missing")
    assert place_on_one_node(ask(8), fleet(blind)) == NoRoom(per_node={"a": "nvidia-smi is missing"}, never=False)
    beyond = place_on_one_node(ask(1, cpus=65), fleet(blind))
    assert isinstance(beyond, NoRoom)
    assert beyond.never


def test_a_job_of_several_nodes_or_pools_never_fits() -> None:
    for wish in (ask(nodes=2), Ask((*ask().pools, *ask().pools))):
        answer = place_on_one_node(wish, fleet(node("a", 8)))
        assert isinstance(answer, NoRoom)
        assert answer.never


SHAPES = st.builds(
    PoolRequest,
    name=st.just("main"),
    nodes=st.integers(1, 2),
    gpus_per_node=st.integers(0, 4),
    series=st.sampled_from([None, "h100", "a100"]),
    cpus=st.none() | st.floats(0.5, 80),
    memory_bytes=st.none() | st.integers(GIB, 300 * GIB),
)
MACHINES = st.builds(
    node,
    st.sampled_from("abc"),
    free=st.integers(0, 3),
    series=st.sampled_from(["h100", "a100"]),
    cpus=st.floats(0.5, 80),
    memory_bytes=st.integers(GIB, 300 * GIB),
)


@given(SHAPES, st.lists(MACHINES, max_size=3, unique_by=lambda one: one.name))
def test_a_fleet_that_is_empty_takes_exactly_what_admission_lets_in(pool: PoolRequest, nodes: list[NodeView]) -> None:
    view = fleet(*nodes)
    placed = place_on_one_node(Ask((pool,)), view)
    fit = decide_fit((pool,), view, ONE_NODE)
    assert isinstance(placed, NoRoom) == bool(fit.never)
    if isinstance(placed, NoRoom):
        assert placed.never


def test_what_never_fits_names_the_largest_machine_of_the_series() -> None:
    view = fleet(node("a", 2), node("b", 4, 4), node("c", 16, series="a100"))
    assert decide_fit(ask(9, series="h100").pools, view, ONE_NODE) == Fit(
        never="pool main: 9 h100 GPUs are asked, and b has 8"
    )
    assert decide_fit(ask(0, cpus=65).pools, view, ONE_NODE).never == "pool main: 65 CPUs are asked, and c has 64"
    asked = ask(0, memory_bytes=257 * GIB).pools
    assert "257.0 GiB of memory are asked, and c has 256.0" in decide_fit(asked, view, ONE_NODE).never


@given(
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=1, max_size=6),
    st.integers(0, 9),
)
def test_whatever_is_chosen_has_room_and_none_has_more(machines: list[tuple[int, int]], wanted: int) -> None:
    nodes = [node(f"n{index}", free, held) for index, (free, held) in enumerate(machines)]
    answer = place_on_one_node(ask(wanted, cpus=1, memory_bytes=GIB), fleet(*nodes))
    free = {f"n{index}": count for index, (count, _) in enumerate(machines)}
    if isinstance(answer, NoRoom):
        assert all(count < wanted for count in free.values())
        assert answer.never == all(sum(machine) < wanted for machine in machines)
        assert set(answer.per_node) == set(free)
    else:
        assert free[answer.node] == max(free.values()) >= wanted


def pool(name: str, nodes: int, gpus: int, series: str | None = None) -> PoolRequest:
    return PoolRequest(name=name, nodes=nodes, gpus_per_node=gpus, series=series)


def spread(wish: Ask, view: FleetView) -> tuple[tuple[str, ...], ...]:
    placed = place_on_nodes(wish, view)
    assert isinstance(placed, Target), placed
    assert placed.node == placed.spread[0][0]
    return placed.spread


def test_a_pool_of_several_machines_has_each_once_and_those_with_most_free_first() -> None:
    view = fleet(node("a", 4, 4), node("b", 8), node("c", 8), node("d", 2))
    assert spread(ask(2, nodes=3), view) == (("b", "c", "a"),)


def test_pools_take_nothing_from_one_another_and_the_largest_chooses_first() -> None:
    view = fleet(node("a", 8), node("b", 2))
    both = Ask((pool("reward", 1, 1), pool("train", 1, 8)))
    assert spread(both, view) == (("b",), ("a",))
    assert spread(Ask((pool("x", 1, 4), pool("y", 1, 4))), fleet(node("a", 8))) == (("a",), ("a",))


def test_too_few_machines_are_told_of_each_and_never_only_where_no_ending_helps() -> None:
    view = fleet(node("a", 8), node("b", 0, 8))
    answer = place_on_nodes(ask(8, nodes=2), view)
    assert isinstance(answer, NoRoom)
    assert not answer.never
    assert answer.per_node["a"] == "has room, and only 1 of the 2 machines that pool main needs do"
    assert "0 of 8" in answer.per_node["b"]
    answer = place_on_nodes(ask(8, nodes=3), view)
    assert isinstance(answer, NoRoom)
    assert answer.never


def test_what_a_job_of_several_machines_takes_is_found_on_none_of_them() -> None:
    view = fleet(node("a", 8), node("b", 8), node("c", 8))
    wish = Ask((pool("train", 2, 8), pool("reward", 1, 4)))
    target = place_on_nodes(wish, view)
    assert isinstance(target, Target)
    after = claim(view, target, THIS, wish.pools)
    free = [sum(gpu.state is GpuState.FREE for gpu in one.gpus) for one in after.nodes]
    assert free == [0, 0, 4]
    assert all(THIS in one.held for one in after.nodes)


@given(st.lists(st.integers(0, 8), min_size=1, max_size=5), st.integers(1, 4), st.integers(0, 8))
def test_several_machines_are_found_exactly_where_enough_have_room(free: list[int], nodes: int, gpus: int) -> None:
    view = fleet(*(node(f"n{number}", some, 8 - some) for number, some in enumerate(free)))
    able = sum(some >= gpus for some in free)
    assert isinstance(place_on_nodes(ask(gpus, nodes=nodes, cpus=1.0, memory_bytes=1), view), Target) == (able >= nodes)


@given(st.permutations([pool("any", 1, 1), pool("rare", 1, 1, "h200"), pool("wide", 1, 2)]))
def test_a_pool_that_any_gpu_would_do_for_leaves_those_that_another_asks_for_by_name(pools: list[PoolRequest]) -> None:
    view = fleet(node("a", 1, series="h200"), node("b", 3, series="l40s"))
    assert isinstance(place_on_nodes(Ask(tuple(pools)), view), Target)
