"""The profiles that this console's machines make possible. Pure."""

from collections import Counter
from collections.abc import Sequence

from starforge.contract.executor import FleetView, NodeView
from starforge.hardware.profiles import BUILT_IN, Profile
from starforge.hardware.series import FAMILIES, matches


def build_profiles_of(views: Sequence[FleetView]) -> list[Profile]:
    """The built-in profiles, and one for each series of GPUs that a machine has and for each family of these.

    A whole node is the largest machine of the series or the family.
    """
    largest: Counter[str] = Counter()
    for view in views:
        for node in view.nodes:
            for name, count in _count_names(node).items():
                largest[name] = max(largest[name], count)
    found = [
        Profile(name=name, series=name, gpus=1, gpus_per_node=count)
        for name, count in sorted(largest.items())
        if name not in BUILT_IN
    ]
    return [*BUILT_IN.values(), *found]


def _count_names(node: NodeView) -> Counter[str]:
    """How many GPUs of the machine meet each name that one of them meets."""
    series = [gpu.series for gpu in node.gpus if gpu.series is not None]
    names = {*series, *(family for family, members in FAMILIES.items() if not members.isdisjoint(series))}
    return Counter({name: sum(matches(name, one) for one in series) for name in names})
