from starforge.contract.executor import FleetView, GpuState, GpuView, NodeView
from starforge_console.fleets.profiles import build_profiles_of


def node(name: str, *series: str | None) -> NodeView:
    gpus = tuple(
        GpuView(uuid=f"{name}-{n}", index=n, name="", series=one, memory_bytes=None, state=GpuState.FREE)
        for n, one in enumerate(series)
    )
    return NodeView(name=name, gpus=gpus, cpus=8, memory_bytes=1 << 34)


def shapes(*nodes: NodeView) -> dict[str, int]:
    return {one.name: one.gpus_per_node for one in build_profiles_of([FleetView(fleet="f", nodes=nodes)]) if one.series}


def test_a_machine_offers_its_series_and_the_families_that_these_meet() -> None:
    assert shapes(node("a", *["h100-sxm"] * 8), node("b", "h100-pcie", "h100-pcie", "l4")) == {
        "h100": 8,
        "h100-sxm": 8,
        "h100-pcie": 2,
        "l4": 1,
    }


def test_a_gpu_whose_series_nobody_knows_makes_no_profile() -> None:
    assert shapes(node("a", None, None)) == {}
