"""`starforge-console quota`."""

import time
from typing import TYPE_CHECKING

import click

from starforge.cli.limit_options import limit_options
from starforge_console.cli.group import Commands
from starforge_console.cli.opening import open_ledger, read_settings

if TYPE_CHECKING:
    from collections.abc import Callable


@click.group(cls=Commands)
def quota() -> None:
    """What users and teams may hold and use."""


def _holder_options(command: "Callable[..., None]") -> "Callable[..., None]":
    options = (
        click.option("--user", metavar="NAME", help="The user whose limit it is."),
        click.option("--team", metavar="NAME", help="The team whose limit it is."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@quota.command("set")
@_holder_options
@limit_options
def set_quota(user: str | None, team: str | None, **limits: str | None) -> None:
    """Limit a user or a team; what is not named stays as it is, and `none` takes a limit away.

    A job that could never start under a limit is refused; one that is only over it now waits in the queue. What runs
    already goes on, also when its hours are used up or its storage is full. Series bind GPUs alone, profiles also jobs
    without any (cpu). The console may be running: it minds a change within seconds.
    """
    from starforge_console.accounts.quota_command import set_quota  # noqa: PLC0415 - a help text needs none of it

    with open_ledger(read_settings()) as ledger:
        set_quota(ledger, user, team, {name: text for name, text in limits.items() if text is not None})


@quota.command("ls")
@click.option("--runs", is_flag=True, help="Show the runs that add up to it, too.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON with a stable schema.")
def list_quotas(*, runs: bool, as_json: bool) -> None:
    """Show every limit and what counts against it now.

    The JSON holds items: a list of kind (user or team), name, gpus, jobs, series, gpu_hours, storage_gib and profiles
    (null: no limit), held with gpus and jobs, gpu_seconds of the last 24 hours, stored_bytes, and runs: job, user,
    gpus, jobs, gpu_seconds, stored_bytes and unanswered of each run that these numbers are the sums of; what is not
    named of very many is other_runs, otherwise null. It is what `sf admin quota ls --json` prints.
    """
    from starforge_console.accounts.quota_command import show_quotas  # noqa: PLC0415 - a help text needs none of it

    with open_ledger(read_settings()) as ledger:
        show_quotas(ledger, time.time(), as_json=as_json, runs=runs)


@quota.command("rm")
@_holder_options
def remove_quota(user: str | None, team: str | None) -> None:
    """Take every limit of a user or a team away."""
    from starforge_console.accounts.quota_command import remove_quota  # noqa: PLC0415 - a help text needs none of it

    with open_ledger(read_settings()) as ledger:
        remove_quota(ledger, user, team)
