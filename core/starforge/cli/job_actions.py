"""`sf job stop` and `delete`."""

import sys
import time

import click

from starforge.cli.output import json_option, note, print_json
from starforge.cli.session import open_console
from starforge.client.streams import is_over
from starforge.contract.api import StopRequest
from starforge.errors import InputError
from starforge.wording import describe_duration


@click.command()
@click.argument("job")
@click.option("--grace", type=click.FloatRange(0, 3600), help="Seconds for a last checkpoint.")
@click.option("--note", "text", help="Why; the job's history keeps it.")
@json_option
def stop(job: str, grace: float | None, text: str | None, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""End a job; it may write a last checkpoint.

    Returns once the wish is kept; `sf job logs -f` shows the end. A job that has
    ended already stays as it is.

    \b
    JSON: {job: as `sf job ls` shows it}
    """
    with open_console() as console:
        before = console.job(job).job
        if not is_over(before):
            console.stop(job, StopRequest(grace_s=grace, note=text))
        view = console.job(job).job
    if as_json:
        print_json({"job": view.model_dump(mode="json")})
    elif is_over(before):
        ago = describe_duration(time.time() - before.state_since)
        click.echo(f"{job} ended already, {ago} ago: {before.state} ({before.reason})")
    elif is_over(view):
        click.echo(f"{job} is {view.state} ({view.reason})")
    else:
        click.echo(f"stopping {job}, which is {view.state}; follow with: sf job logs -f {job}")


@click.command()
@click.argument("job")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def delete(job: str, yes: bool, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Remove a finished job with its logs and work.

    Asks on a terminal; elsewhere, and with --json, --yes is needed.

    \b
    JSON: {job, deleted: true}
    """
    if not yes and (as_json or not sys.stdin.isatty()):
        raise InputError(
            f"{job} was not removed",
            why="nobody can be asked whether it may be: " + ("--json was given" if as_json else "stdin is no terminal"),
            next_step=f"sf job delete {job} --yes",
        )
    if not yes:
        click.confirm(f"remove {job} with its logs, outputs and checkpoints?", abort=True, err=True)
    with open_console() as console:
        console.delete(job)
    if as_json:
        print_json({"job": job, "deleted": True})
    else:
        note(f"{job} is removed")
