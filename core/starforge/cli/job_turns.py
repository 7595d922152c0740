"""`sf job pause`, `resume` and `retry`."""

import sys

import click

from starforge.cli.output import json_option
from starforge.cli.session import open_console
from starforge.cli.several import do_each, jobs_argument
from starforge.client.console import Console
from starforge.contract.api import JobView
from starforge.contract.turns import GoOnRequest, PauseRequest
from starforge.errors import ProgressAtRisk


@click.command()
@jobs_argument
@click.option("--grace", type=click.FloatRange(0, 3600), help="Seconds for a last checkpoint of each.")
@click.option("--note", "text", help="Why; the history of each job keeps it.")
@click.option("--yes", is_flag=True, help="Pause them also where their work would be lost.")
@json_option
def pause(jobs: tuple[str, ...], grace: float | None, text: str | None, yes: bool, as_json: bool) -> int:  # noqa: FBT001 - click passes flags so
    r"""Pause jobs; they give their GPUs back.

    Each writes a checkpoint first, and `sf job resume` lets the same run go on from
    it. A queued job is paused at once. One that has kept no checkpoint would start
    from the beginning: that is asked on a terminal; elsewhere, and with --json, --yes
    is needed. Of several jobs one that is refused keeps no other from its pause; the
    exit code is 1 then.

    \b
    JSON: {job: as `sf job ls` shows it}; of several jobs
          {jobs: [{id, job or null, error: {code, what, why, next_step} or null}]}
    """
    request = PauseRequest(grace_s=grace, note=text, lose_progress=yes)
    may_ask = not as_json and sys.stdin.isatty()
    with open_console() as console:
        return do_each(jobs, lambda job: _pause(console, job, request, may_ask=may_ask), _say_paused, as_json=as_json)


@click.command()
@jobs_argument
@click.option("--note", "text", help="Why; the history of each job keeps it.")
@json_option
def resume(jobs: tuple[str, ...], text: str | None, as_json: bool) -> int:  # noqa: FBT001 - click passes flags so
    r"""Let paused jobs go on.

    Each is the same run with a new attempt, from its newest checkpoint. One whose
    pause is not confirmed yet is paused first: its program has been told already. Of
    several jobs one that is refused keeps no other; the exit code is 1 then.

    \b
    JSON: as `sf job pause`
    """
    request = GoOnRequest(note=text)
    with open_console() as console:
        return do_each(jobs, lambda job: console.resume(job, request), _say_resumed, as_json=as_json)


@click.command()
@jobs_argument
@click.option("--note", "text", help="Why; the history of each job keeps it.")
@json_option
def retry(jobs: tuple[str, ...], text: str | None, as_json: bool) -> int:  # noqa: FBT001 - click passes flags so
    r"""Queue failed or stopped jobs again.

    Each is the same run with a new attempt, from its newest checkpoint, and with all
    the retries it was submitted with. A job that succeeded is final: `sf rerun` and
    `sf job clone` make a new one of it. Of several jobs one that is refused keeps no
    other; the exit code is 1 then.

    \b
    JSON: as `sf job pause`
    """
    request = GoOnRequest(note=text)
    with open_console() as console:
        return do_each(jobs, lambda job: console.retry(job, request), _say, as_json=as_json)


def _pause(console: Console, job: str, request: PauseRequest, *, may_ask: bool) -> JobView:
    try:
        return console.pause(job, request)
    except ProgressAtRisk as risk:
        if not may_ask:
            raise
        click.confirm(f"{risk.why}. Pause {job} all the same?", abort=True, err=True)
    return console.pause(job, request.model_copy(update={"lose_progress": True}))


def _say_paused(view: JobView) -> None:
    if view.state == "PAUSED":
        click.echo(f"{view.id} is paused; let it go on with: sf job resume {view.id}")
    else:
        click.echo(f"pausing {view.id}, which is {view.state}; follow with: sf job logs -f {view.id}")


def _say_resumed(view: JobView) -> None:
    if view.desired == "pause":
        click.echo(f"{view.id} is still pausing; it goes on as soon as it is paused")
    else:
        _say(view)


def _say(view: JobView) -> None:
    click.echo(f"{view.id} is {view.state}; follow with: sf job logs -f {view.id}")
