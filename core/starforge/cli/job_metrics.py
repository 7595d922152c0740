"""`sf job metrics`: what a job has reported, in numbers."""

import sys
from typing import Final

import click

from starforge.cli.follow import CURVE_POINTS, describe_curve
from starforge.cli.output import json_option, note, print_json, print_table
from starforge.cli.plot import render_number
from starforge.cli.session import open_console
from starforge.client.console import Console
from starforge.contract.comparing import KEYS_AT_MOST
from starforge.contract.curves import sort_keys
from starforge.contract.results import MetricKeys
from starforge.errors import InputError, NotFound
from starforge.wording import describe_nearest

_KEYS_A_FILE: Final = 200


@click.command()
@click.argument("job")
@click.option("--key", "keys", multiple=True, metavar="KEY", help="A metric to show; may be given several times.")
@click.option("--find", "text", default="", metavar="TEXT", help="Only metrics whose name holds this.")
@click.option("--attempt", type=click.IntRange(1), help="Points of this attempt alone; default: all, joined.")
@click.option("--csv", "as_csv", is_flag=True, help="Print every point as CSV: key,attempt,step,time,value.")
@click.option(
    "--points", type=click.IntRange(2, 10_000), default=CURVE_POINTS, show_default=True, help="Points of --key."
)
@json_option
def metrics(  # noqa: PLR0913 - one parameter an option
    job: str, keys: tuple[str, ...], *, text: str, attempt: int | None, as_csv: bool, points: int, as_json: bool
) -> None:
    r"""Show a job's metrics, or every point of them as CSV.

    Without --key a table of the most telling ones; with it, their curves.

    \b
    JSON: {keys: {KEY: points}, primary, total, next,
           curves: [{key, steps, values, times, total_points}]}
    `curves` holds those named by --key, in about --points points that keep lows
    and highs. Values are numbers, or "nan", "inf", "-inf"; times are Unix
    seconds.
    """
    with open_console() as console:
        if as_csv:
            _print_csv(console, job, keys, text)
            return
        known = console.metric_keys(job, text)
        _check_keys(job, keys, console.metric_keys(job) if keys and text else known)
        curves = [console.curve(job, key, points, attempt) for key in keys]
        if as_json:
            print_json({**known.model_dump(mode="json"), "curves": [curve.model_dump(mode="json") for curve in curves]})
        elif keys:
            click.echo("\n\n".join(map(describe_curve, curves)))
        else:
            _print_values(console, job, known)


def _check_keys(job: str, keys: tuple[str, ...], known: MetricKeys) -> None:
    missing = [key for key in keys if key not in known.keys]
    if missing:
        raise NotFound(
            f"job {job} reported no metric {missing[0]!r}",
            next_step=describe_nearest(missing[0], known.keys) if known.keys else "it has reported none yet",
        )


def _print_csv(console: Console, job: str, keys: tuple[str, ...], text: str) -> None:
    wanted = keys or (tuple(console.metric_keys(job, text).keys) if text else ())
    if text and not wanted:
        raise NotFound(
            f"job {job} has no metric whose name holds {text!r}", next_step="look at its names: sf job metrics"
        )
    if len(wanted) > _KEYS_A_FILE:
        raise InputError(
            f"{len(wanted)} metrics are asked for",
            why=f"one request names {_KEYS_A_FILE} at most",
            next_step="narrow --find, or leave it out: without it all metrics come",
        )
    import tempfile  # noqa: PLC0415 - only who wants a file

    # A download that was cut goes on where it was, which a pipe cannot.
    with tempfile.TemporaryFile() as file:
        console.save_metrics(job, wanted, file)
        file.seek(0)
        out = sys.stdout.buffer
        while piece := file.read(1 << 20):
            out.write(piece)
        out.flush()


def _print_values(console: Console, job: str, known: MetricKeys) -> None:
    if not known.keys:
        click.echo("no metric")
        return
    shown = sort_keys(known.keys, known.primary)[:KEYS_AT_MOST]
    found = {curve.key: curve for curve in console.compare([job], shown, CURVE_POINTS).curves}
    rows = [
        (key, str(known.keys[key]), *(render_number(value) for value in (one.last, one.low, one.high)))
        for key in shown
        if (one := found.get(key)) is not None
    ]
    print_table(("METRIC", "POINTS", "LAST", "LOWEST", "HIGHEST"), rows)
    if len(known.keys) > len(shown):
        note(f"{len(known.keys) - len(shown)} more metrics; --find TEXT narrows them, --json names all")
