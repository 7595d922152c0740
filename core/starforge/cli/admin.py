"""`sf admin`: what administrators do for the whole console."""

from typing import Final

import click

from starforge.cli.lazy import LazyCommand, LazyGroup

_COMMANDS: Final = {
    "gc": LazyCommand("starforge.cli.admin_gc:gc", "List, or remove, what is over its time."),
    "registry": LazyCommand("starforge.cli.admin_registry:registry", "Let the console sign in to registries."),
}


@click.group(cls=LazyGroup, lazy=_COMMANDS)
def admin() -> None:
    """Look after the whole console; it takes an administrator's token."""
