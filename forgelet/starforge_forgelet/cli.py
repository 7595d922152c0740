"""The command `forgelet`: its commands by name, each in a module of its own."""

import sys
from collections.abc import Mapping, Sequence
from typing import Final

import click

from starforge import __version__
from starforge.cli.lazy import LazyCommand, LazyGroup
from starforge.cli.run import run

_COMMANDS: Final[Mapping[str, LazyCommand]] = {
    "join": LazyCommand("starforge_forgelet.commands.join:join", "Register this machine with a console."),
    "serve": LazyCommand("starforge_forgelet.commands.serve:serve", "Run the daemon until TERM or INT."),
    "status": LazyCommand(
        "starforge_forgelet.commands.status:status", "Say who this machine is, and how its heartbeats fare."
    ),
    "doctor": LazyCommand(
        "starforge_forgelet.commands.doctor:doctor", "Check whether this machine can run jobs, and say how to mend it."
    ),
    "gpus": LazyCommand(
        "starforge_forgelet.commands.gpus:gpus", "Show which GPUs this machine has, and why one is not offered."
    ),
    "require": LazyCommand(
        "starforge_forgelet.commands.require:require", "For scripts: fail unless this machine is as they need it."
    ),
    "unit": LazyCommand("starforge_forgelet.commands.unit:unit", "Print a systemd unit for the daemon."),
    "version": LazyCommand("starforge_forgelet.commands.version:version", "Print the installed version."),
}


@click.group(cls=LazyGroup, lazy=_COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="forgelet", message="%(prog)s %(version)s")
def root() -> None:
    """The daemon of one GPU machine: it joins a console and starts the containers that the console asks for."""


def main(args: Sequence[str] | None = None) -> None:
    """Run `forgelet` with `args` (None: the process's own) and end the process with its exit code."""
    sys.exit(run(root, sys.argv[1:] if args is None else args, "forgelet"))
