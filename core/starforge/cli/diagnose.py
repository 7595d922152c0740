"""`sf diagnose`: why a training failed, from a log file or from a job's log and exit."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

import click

from starforge.cli.output import find_width, has_colour, json_option, paint, print_json, render_row, say
from starforge.cli.session import open_console
from starforge.contract.ids import is_job_id
from starforge.diagnosis.answer import KnownExit
from starforge.diagnosis.diagnose import diagnose as diagnose_log
from starforge.errors import InputError

_STDIN: Final = "-"
_PIECE_BYTES: Final = 1 << 20
_WIDTH: Final = 100
_LARGEST_CODE: Final = 255
_SURE: Final = {"sure": "sure", "likely": "likely", "low": "a guess"}


@click.command()
@click.argument("source", metavar="FILE|JOB")
@click.option(
    "--exit-code",
    type=click.IntRange(-_LARGEST_CODE, _LARGEST_CODE),
    help="The exit code that belongs to the file: it tells more than the log alone.",
)
@click.option("--attempt", type=click.IntRange(min=1), help="Of a job: this attempt and not the newest.")
@json_option
def diagnose(source: str, exit_code: int | None, attempt: int | None, as_json: bool) -> None:  # noqa: FBT001 - click's
    r"""Say why a training failed, from its log.

    FILE is a log, `-` the standard input; for a job the console is asked. "Not diagnosed" is an answer: it is given
    where nothing is sure enough.

    \b
    JSON: {category, kind, summary, root_cause_line, line, byte_offset, advice,
           confidence, suspect_rank, retryable, facts, rules_version}
    Of a job also: {job, attempt, diagnosed_at}
    root_cause_line, line and byte_offset are null where only the exit tells it.
    """
    if is_job_id(source) and not Path(source).exists():
        found = _diagnose_job(source, exit_code, attempt)
    else:
        found = _diagnose_file(source, exit_code, attempt)
    if as_json:
        print_json(found)
    else:
        _print(found)


def _diagnose_job(job: str, exit_code: int | None, attempt: int | None) -> dict[str, Any]:
    if exit_code is not None:
        raise InputError(
            f"--exit-code is for a file, and {job} is a job",
            why="the console knows the exit of its jobs",
            next_step="leave it out",
        )
    with open_console() as console:
        return console.diagnosis(job, attempt).model_dump(mode="json")


def _diagnose_file(source: str, exit_code: int | None, attempt: int | None) -> dict[str, Any]:
    if attempt is not None:
        raise InputError(f"{source} is no job", why="only a job has attempts", next_step="leave out --attempt")
    code = exit_code if exit_code is None or exit_code >= 0 else 128 - exit_code
    known = KnownExit(code=code)
    if source == _STDIN:
        return diagnose_log(_read(sys.stdin.buffer), known).to_json()
    try:
        with Path(source).open("rb") as file:
            return diagnose_log(_read(file), known).to_json()
    except (OSError, ValueError) as error:  # the latter: a name with a NUL
        raise InputError(
            f"{source!r} cannot be read", why=str(error), next_step="name a log file, a job's id, or - for the input"
        ) from None


def _read(file: IO[bytes]) -> Iterator[bytes]:
    while piece := file.read(_PIECE_BYTES):
        yield piece


def _print(found: dict[str, Any]) -> None:
    width = find_width() or _WIDTH
    click.echo(render_row("what:  ", found["summary"], width))
    if found["line"] is not None:
        place = paint(f"line {found['line']}", "cyan", colour=has_colour())
        click.echo(f"where: {place}{_describe_rank(found)}")
        say(f"       {found['root_cause_line']}")
    if found["confidence"] in _SURE:
        click.echo(f"kind:  {found['category']} ({_SURE[found['confidence']]})")
    click.echo(render_row("next:  ", found["advice"], width))
    if found["retryable"]:
        click.echo("       The same job can succeed as it is, on another machine or at another time.")


def _describe_rank(found: dict[str, Any]) -> str:
    return "" if found["suspect_rank"] is None else f", rank {found['suspect_rank']} failed first"
