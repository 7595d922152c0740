"""Which GPUs a fleet of a Slurm cluster has, from what Slurm says of its nodes."""

import pytest

from starforge_console.executors.slurm.native import NativeNode, NativePartition
from starforge_console.executors.slurm.viewing import Naming, build_view, list_gres

GPU = NativePartition(name="gpu", is_up=True, max_time_s=None)


def node(gres: str, used: str = "") -> NativeNode:
    return NativeNode(
        name="n1",
        states=("IDLE",),
        partitions=("gpu",),
        cpus=8,
        cpus_taken=0,
        memory_mb=1024,
        memory_taken_mb=0,
        gres=gres,
        gres_used=used,
    )


@pytest.mark.parametrize(
    ("gres", "named", "series"),
    [
        ("gpu:h200:2", {}, ["h200-sxm", "h200-sxm"]),
        ("gpu:odd:2", {"h200-sxm": "gpu:odd"}, ["h200-sxm", "h200-sxm"]),
        ("gpu:2", {"h200-sxm": "gpu"}, ["h200-sxm", "h200-sxm"]),
        ("gpu:2", {}, [None, None]),
        ("gpu:odd:1,gpu:1", {"h200-sxm": "gpu", "l40s": "gpu:odd"}, ["l40s", "h200-sxm"]),
    ],
)
def test_the_series_follow_from_the_types_or_from_the_settings(
    gres: str, named: dict[str, str], series: list[str | None]
) -> None:
    naming = Naming(gres=named, series_of=lambda gpu_type: "h200-sxm" if gpu_type == "h200" else None)
    (seen,) = build_view("cluster", GPU, [node(gres)], {}, naming).nodes
    assert [gpu.series for gpu in seen.gpus] == series
    assert set(series) - {None} <= set(list_gres([node(gres)], naming))
