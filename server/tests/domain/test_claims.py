"""A view of capacity, less what was given away since the machines were asked."""

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from server.tests.domain.test_reconcile import job
from starforge.contract.executor import FleetView, GpuState, GpuView, NodeView, Target
from starforge.contract.ids import AttemptId
from starforge.contract.launch import PoolRequest
from starforge_console.domain.claims import claim, claim_targets

A1, A2 = AttemptId("j234567abc-1-abcdef"), AttemptId("j234567abd-1-abcdef")
STATES = st.sampled_from(GpuState)
SERIES = st.sampled_from([None, "h100", "h200"])


def build_node(name: str = "n1", *states: GpuState, series: str | None = "h100") -> NodeView:
    gpus = tuple(
        GpuView(uuid=f"GPU-{name}-{index}", index=index, name="x", series=series, memory_bytes=None, state=state)
        for index, state in enumerate(states)
    )
    return NodeView(name=name, gpus=gpus, cpus=16.0, memory_bytes=1 << 36)


def build_view(*nodes: NodeView) -> FleetView:
    return FleetView(fleet="local", nodes=nodes)


def ask(gpus: int = 1, series: str | None = None) -> tuple[PoolRequest, ...]:
    return (PoolRequest(name="main", nodes=1, gpus_per_node=gpus, series=series, cpus=2.0, memory_bytes=1 << 30),)


def free(node: NodeView) -> int:
    return sum(gpu.state is GpuState.FREE for gpu in node.gpus)


def test_a_claim_takes_gpus_cpus_and_memory_of_its_machine_alone() -> None:
    view = build_view(build_node("n1", GpuState.FREE, GpuState.FREE), build_node("n2", GpuState.FREE))
    first, second = claim(view, Target(fleet="gpu", node="n1", name="x"), A1, ask()).nodes
    assert [(gpu.state, gpu.attempt) for gpu in first.gpus] == [(GpuState.HELD, A1), (GpuState.FREE, None)]
    assert first.held == {A1: (2.0, 1 << 30)}
    assert second == view.nodes[1]


def test_a_claim_passes_over_gpus_that_are_of_another_series_or_not_free() -> None:
    states = (GpuState.QUARANTINED, GpuState.FOREIGN, GpuState.HELD, GpuState.FREE)
    node = build_node("n1", *states)
    mixed = dataclasses.replace(
        node, gpus=(dataclasses.replace(node.gpus[3], index=9, uuid="other", series="h200"), *node.gpus)
    )
    (claimed,) = claim(build_view(mixed), Target(fleet="gpu", node="n1", name="x"), A1, ask(1, "h100")).nodes
    changed = [gpu.uuid for gpu in claimed.gpus if gpu.attempt == A1]
    assert changed == ["GPU-n1-3"]


def test_an_attempt_that_its_machine_lists_is_not_counted_twice() -> None:
    node = dataclasses.replace(build_node("n1", GpuState.FREE, GpuState.FREE), held={A1: (2.0, 1 << 30)})
    listed, other = job(), job(pools=ask())
    other = dataclasses.replace(other, attempt=dataclasses.replace(other.attempt, id=A2))
    assert listed.attempt.id == A1
    (after,) = claim_targets(build_view(node), [listed, other]).nodes
    assert set(after.held) == {A1, A2}
    assert free(after) == 1


def test_an_attempt_of_another_fleet_or_of_a_machine_that_is_not_seen_takes_nothing_here() -> None:
    view = build_view(build_node("n9", GpuState.FREE))
    assert claim_targets(view, [job(pools=ask())]) == view
    elsewhere = dataclasses.replace(view, fleet="other", nodes=(build_node("n1", GpuState.FREE),))
    assert claim_targets(elsewhere, [job(pools=ask())]) == elsewhere


@given(states=st.lists(STATES, max_size=8), wanted=st.integers(0, 10), series=SERIES)
def test_a_claim_never_takes_more_than_it_asks_for_nor_what_is_not_free(
    states: list[GpuState], wanted: int, series: str | None
) -> None:
    node = build_node("n1", *states)
    (after,) = claim(build_view(node), Target(fleet="gpu", node="n1", name="x"), A1, ask(wanted, series)).nodes
    fitting = free(node) if series in {None, "h100"} else 0
    assert free(node) - free(after) == min(wanted, fitting)
    assert [gpu.uuid for gpu in after.gpus] == [gpu.uuid for gpu in sorted(node.gpus, key=lambda one: one.index)]
    for before, now in zip(node.gpus, after.gpus, strict=True):
        assert before == now or (before.state, now.state, now.attempt) == (GpuState.FREE, GpuState.HELD, A1)


def test_a_claim_on_unknown_gpus_takes_the_most_that_its_default_share_could_be() -> None:
    blind = dataclasses.replace(build_node("n1"), gpus_unknown="nvidia-smi hangs")
    pool = PoolRequest(name="main", nodes=1, gpus_per_node=1)
    (claimed,) = claim(build_view(blind), Target(fleet="gpu", node="n1", name="x"), A1, (pool,)).nodes
    assert claimed.gpus_unknown == "nvidia-smi hangs"
    assert claimed.held[A1][0] == 0.9 * blind.cpus
