"""The profiles that this console's machines make possible. Pure."""

from collections import Counter
from collections.abc import Sequence

from starforge.contract.executor import FleetView
from starforge.hardware.profiles import BUILT_IN, Profile


def build_profiles_of(views: Sequence[FleetView]) -> list[Profile]:
    """The built-in profiles, and one for each series of GPUs that a machine has.

    A whole node is the largest machine of the series.
    """
    largest: Counter[str] = Counter()
    for view in views:
        for node in view.nodes:
            for series, count in Counter(gpu.series for gpu in node.gpus if gpu.series is not None).items():
                largest[series] = max(largest[series], count)
    found = [
        Profile(name=series, series=series, gpus=1, gpus_per_node=count)
        for series, count in sorted(largest.items())
        if series not in BUILT_IN
    ]
    return [*BUILT_IN.values(), *found]
