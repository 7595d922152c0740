"""`sf log`: logs as files."""

from typing import Final

import click

from starforge.cli.lazy import LazyCommand, LazyGroup

_COMMANDS: Final = {
    "render": LazyCommand(
        "starforge.cli.log_render:render", "Show raw log bytes as the page of a job and `sf job logs` would."
    ),
}


@click.group(cls=LazyGroup, lazy=_COMMANDS)
def log() -> None:
    """Look at logs that are files."""
