"""Whether a cluster has room for an ask: pure. Its own scheduler chooses the nodes; here is said whether some fit."""

from starforge.contract.executor import FleetView, NoRoom, PlacementAsk, Target
from starforge_console.domain.placement import place_on_nodes, place_on_one_node


def place(ask: PlacementAsk, view: FleetView) -> Target | NoRoom:
    """A node of the first pool, or why there is no room: for every pool as many nodes as it asks for."""
    if len(ask.pools) == 1 and ask.pools[0].nodes == 1:
        return place_on_one_node(ask, view)
    return place_on_nodes(ask, view)
