"""`sf node`: look at machines, and take them out of use."""

from typing import Final

import click

from starforge.cli.lazy import LazyCommand, LazyGroup

_COMMANDS: Final = {
    "ls": LazyCommand("starforge.cli.fleet_views:nodes", "List the machines of all fleets."),
    "drain": LazyCommand("starforge.cli.node_actions:drain", "Place nothing new on a machine."),
    "undrain": LazyCommand("starforge.cli.node_actions:undrain", "Place on a machine again."),
    "remove": LazyCommand("starforge.cli.node_actions:remove", "Take a machine out of its fleet."),
    "mark-lost": LazyCommand("starforge.cli.node_actions:mark_lost", "Declare a machine lost."),
    "end-unknown": LazyCommand("starforge.cli.node_actions:end_unknown", "End an unknown container."),
}


@click.group(cls=LazyGroup, lazy=_COMMANDS)
def node() -> None:
    """Look at machines, take them out of use."""
