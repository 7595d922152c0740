"""The command `sf` and its groups."""

import sys
from collections.abc import Sequence
from typing import Final

import click

from starforge import __version__
from starforge.cli.lazy import LazyCommand, LazyGroup
from starforge.cli.run import run

_COMMANDS: Final = {
    "init": LazyCommand("starforge.cli.init:init", "Make a project in a new folder."),
    "new": LazyCommand("starforge.cli.new:new", "Make an experiment from a method."),
    "ls": LazyCommand("starforge.cli.listing:ls", "List the project's experiments."),
    "methods": LazyCommand("starforge.cli.methods:methods", "List the training methods, or show one."),
    "recipe": LazyCommand("starforge.cli.recipe:recipe", "Look at the locks of experiments, upgrade them."),
    "validate": LazyCommand("starforge.cli.validate:validate", "Check an experiment, without a network."),
    "pack": LazyCommand("starforge.cli.pack:pack", "Show what travels with a job, and its digest."),
    "submit": LazyCommand("starforge.cli.submit:submit", "Submit an experiment as a job."),
    "sweep": LazyCommand("starforge.cli.sweep:sweep", "Submit an experiment once for each combination of values."),
    "rerun": LazyCommand("starforge.cli.job_clone:rerun", "Submit the very same JobSpec again, as a new job of yours."),
    "job": LazyCommand("starforge.cli.job:job", "Look at jobs, follow them, stop them."),
    "queue": LazyCommand("starforge.cli.queue:queue", "Show the queue in its order, and where your jobs stand."),
    "why": LazyCommand("starforge.cli.why:why", "Say why a job waits, and what would start it now."),
    "quota": LazyCommand("starforge.cli.quota:quota", "Show what limits your jobs, and which runs count."),
    "log": LazyCommand("starforge.cli.log:log", "Look at logs that are files."),
    "secret": LazyCommand("starforge.cli.secret:secret", "Keep secrets for your own jobs."),
    "webhook": LazyCommand("starforge.cli.webhook:webhook", "Have a server of yours told what happens to jobs."),
    "compare": LazyCommand("starforge.cli.compare:compare", "Lay runs side by side: metrics, settings, what differs."),
    "diagnose": LazyCommand("starforge.cli.diagnose:diagnose", "Say why a training failed, from its log."),
    "fleet": LazyCommand("starforge.cli.fleet:fleet", "Look at fleets, make one, let machines join it."),
    "windows": LazyCommand("starforge.cli.windows:windows", "Show when fleets, profiles and your team may run."),
    "node": LazyCommand("starforge.cli.node:node", "Look at machines, take them out of use."),
    "admin": LazyCommand("starforge.cli.admin:admin", "Look after the whole console."),
    "login": LazyCommand("starforge.cli.login:login", "Sign in at a server."),
    "logout": LazyCommand("starforge.cli.login:logout", "Forget the server and the token."),
    "session": LazyCommand("starforge.cli.sessions:session", "See where you are signed in, and end that."),
    "status": LazyCommand("starforge.cli.login:status", "Say who is signed in where, and what runs."),
    "version": LazyCommand("starforge.cli.listing:version", "Print the version."),
}


@click.group(cls=LazyGroup, lazy=_COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="sf", message="%(prog)s %(version)s")
def root() -> None:
    r"""Train on your team's own accelerators.

    \b
    sf init my-project && cd my-project
    sf new first
    sf submit first --profile cpu --follow
    """


def main(args: Sequence[str] | None = None) -> None:
    """Run `sf` with `args` (None: the process's own) and end the process with its exit code."""
    sys.exit(run(root, sys.argv[1:] if args is None else args, "sf"))


if __name__ == "__main__":
    main()
