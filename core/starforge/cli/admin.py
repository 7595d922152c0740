"""`sf admin`: what administrators do for the whole console."""

from typing import Final

import click

from starforge.cli.lazy import LazyCommand, LazyGroup

_COMMANDS: Final = {
    "audit": LazyCommand("starforge.cli.admin_audit:audit", "Show who did what, the newest first."),
    "gc": LazyCommand("starforge.cli.admin_gc:gc", "List what is over its time, or remove it."),
    "maintenance": LazyCommand("starforge.cli.admin_maintenance:maintenance", "Empty all machines for a while."),
    "queue": LazyCommand("starforge.cli.admin_queue:queue", "Move queued jobs."),
    "quota": LazyCommand("starforge.cli.admin_quota:quota", "Say what users and teams may hold and use."),
    "registry": LazyCommand("starforge.cli.admin_registry:registry", "Sign the console in to registries of images."),
    "team": LazyCommand("starforge.cli.admin_team:team", "Say who belongs together."),
    "user": LazyCommand("starforge.cli.admin_user:user", "Say who may sign in, in which role and team."),
    "window": LazyCommand("starforge.cli.admin_window:window", "Say when fleets, teams and profiles may run."),
}


@click.group(cls=LazyGroup, lazy=_COMMANDS)
def admin() -> None:
    """Look after the whole console.

    It takes a token with the scope admin. An operator's moves jobs in the queue, and
    looks after windows, maintenance and what is over its time; an administrator's
    does everything.
    """
