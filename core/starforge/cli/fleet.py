"""`sf fleet`: look at fleets, make one, and let machines join it."""

from typing import Final

import click

from starforge.cli.lazy import LazyCommand, LazyGroup

_COMMANDS: Final = {
    "ls": LazyCommand("starforge.cli.fleet_views:ls", "List fleets."),
    "show": LazyCommand("starforge.cli.fleet_views:show", "Show a fleet, its machines and their GPUs."),
    "create": LazyCommand("starforge.cli.fleet_actions:create", "Make a fleet."),
    "change": LazyCommand("starforge.cli.fleet_actions:change", "Change what a fleet asks of jobs."),
    "delete": LazyCommand("starforge.cli.fleet_actions:delete", "Delete a fleet."),
    "token": LazyCommand("starforge.cli.fleet_tokens:token", "Let machines join a fleet."),
    "gpus": LazyCommand("starforge.cli.fleet_gpus:gpus", "Add GPUs that the registry does not know."),
}


@click.group(cls=LazyGroup, lazy=_COMMANDS)
def fleet() -> None:
    """Look at fleets, make one, let machines join it."""
