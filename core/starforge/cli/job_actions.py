"""`sf job stop` and `delete`."""

import sys
import time

import click

from starforge.cli.output import json_option, note, print_json
from starforge.cli.session import open_console
from starforge.cli.several import do_each, jobs_argument
from starforge.client.streams import is_over
from starforge.contract.api import JobView, StopRequest
from starforge.errors import InputError
from starforge.wording import describe_duration


@click.command()
@jobs_argument
@click.option("--grace", type=click.FloatRange(0, 3600), help="Seconds for a last checkpoint of each.")
@click.option("--note", "text", help="Why; the history of each job keeps it.")
@json_option
def stop(jobs: tuple[str, ...], grace: float | None, text: str | None, as_json: bool) -> int:  # noqa: FBT001 - click passes flags so
    r"""End jobs; they may write a last checkpoint.

    Returns once the wishes are kept; `sf job logs -f` shows an end. Jobs that have
    ended already stay as they are. Of several jobs one that is refused keeps no other
    from its end; the exit code is 1 then.

    \b
    JSON: as `sf job pause`
    """
    request, ended = StopRequest(grace_s=grace, note=text), set[str]()

    def act(job: str) -> JobView:
        before = console.job(job).job
        if is_over(before):
            ended.add(before.id)
            return before
        console.stop(job, request)
        return console.job(job).job

    with open_console() as console:
        return do_each(jobs, act, lambda view: _say_stopped(view, was_over=view.id in ended), as_json=as_json)


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


def _say_stopped(view: JobView, *, was_over: bool) -> None:
    if was_over:
        ago = describe_duration(time.time() - view.state_since)
        click.echo(f"{view.id} ended already, {ago} ago: {view.state} ({view.reason})")
    elif is_over(view):
        click.echo(f"{view.id} is {view.state} ({view.reason})")
    else:
        click.echo(f"stopping {view.id}, which is {view.state}; follow with: sf job logs -f {view.id}")
