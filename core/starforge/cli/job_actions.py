"""`sf job logs`, `stop`, `delete`."""

import sys
import time

import click

from starforge.cli.follow import decide_exit_code, follow_job, show_end
from starforge.cli.log_writers import LogWriter, NoLog, RawLog, TextLog
from starforge.cli.output import json_option, note, print_json
from starforge.cli.session import open_console
from starforge.client.console import Console
from starforge.client.streams import Start, is_over
from starforge.contract.api import StopRequest
from starforge.errors import InputError
from starforge.wording import describe_duration


@click.command()
@click.argument("job")
@click.option("-f", "--follow", is_flag=True, help="Go on until the job ends; end with its outcome.")
@click.option("--attempt", type=click.IntRange(1), help="The attempt; the newest when it is not given.")
@click.option("--offset", type=click.IntRange(0), default=0, help="Begin at this byte.")
@click.option("--raw", is_flag=True, help="Write the bytes as they are: terminal sequences and all.")
@json_option
def logs(job: str, follow: bool, attempt: int | None, offset: int, raw: bool, as_json: bool) -> int:  # noqa: FBT001, PLR0913, PLR0917 - click's
    r"""Print a job's log.

    With -f it goes on until the job ends, through restarts of the console and into
    later attempts; the exit code is 0 only when the job succeeded, and Ctrl-C
    leaves the job running. It gives up when the console is silent for 15 minutes.

    \b
    JSON: {job, attempt: number or null, offset, received_to, ended, text}
    JSON with -f: {job: as `sf job ls` shows it, or null when you left}, printed
          at the end, without the log
    """
    log: LogWriter = NoLog() if as_json else RawLog() if raw else TextLog()
    with open_console() as console:
        if not follow:
            return _print_log(console, job, (attempt, offset), None if as_json else log)
        start = Start(attempt=attempt, offset=offset, only_attempt=attempt is not None)
        ended = follow_job(console, job, log, start)
        if as_json:
            print_json({"job": ended.model_dump(mode="json") if ended else None})
        elif ended is not None:
            show_end(console, ended)
        return decide_exit_code(ended)


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


def _print_log(console: Console, job: str, where: tuple[int | None, int], log: LogWriter | None) -> int:
    attempt, offset = where
    start, pieces = offset, []
    while True:
        part = console.log(job, offset, attempt=attempt)
        offset += len(part.content)
        if log is None:
            pieces.append(part.content)
        else:
            log.write(part.content)
        if not part.content or offset >= part.received_to:
            break
    if log is not None:
        log.finish()
        return 0
    text = b"".join(pieces).decode(errors="replace")
    answer = {"job": job, "attempt": attempt, "offset": start, "received_to": part.received_to}
    print_json({**answer, "ended": part.ended, "text": text})
    return 0
