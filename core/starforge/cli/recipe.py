"""`sf recipe`: how experiments stand to the methods that are installed, and the way to another version."""

from typing import Final

import click

from starforge.cli.lazy import LazyCommand, LazyGroup

_COMMANDS: Final = {
    "status": LazyCommand("starforge.cli.recipe_status:status", "Say how locks stand to the installed methods."),
    "upgrade": LazyCommand("starforge.cli.recipe_upgrade:upgrade", "Move locks to another version of their methods."),
}


@click.group(cls=LazyGroup, lazy=_COMMANDS)
def recipe() -> None:
    """Look at the locks of experiments, upgrade them."""
