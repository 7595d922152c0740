"""`sf sweep`: an experiment as many jobs, one for each combination of values."""

from typing import Final

import click

from starforge.cli.lazy import LazyCommand, LazyGroup

_COMMANDS: Final = {
    "start": LazyCommand(
        "starforge.cli.sweep_start:start", "Submit an experiment once for each combination of values."
    ),
    "ls": LazyCommand("starforge.cli.sweep_views:ls", "List sweeps, newest first."),
    "show": LazyCommand("starforge.cli.sweep_views:show", "Show the runs of a sweep, the best first."),
    "stop": LazyCommand("starforge.cli.sweep_views:stop", "End all jobs of a sweep; each may write a last checkpoint."),
}


@click.group(cls=LazyGroup, lazy=_COMMANDS, default="start")
def sweep() -> None:
    r"""Submit an experiment once for each combination of values.

    \b
    sf sweep EXPERIMENT --profile h200:1 -g learning_rate=1e-5,1e-4 -g seed=1,2,3

    The word `start` is needed only for an experiment that is called as a command.
    """
