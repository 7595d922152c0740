"""`sf compare`: runs side by side in the terminal."""

import json
import sys
from typing import Final

import click
from pydantic import JsonValue

from starforge.cli.follow import describe_curve
from starforge.cli.output import json_option, note, print_json, print_table
from starforge.cli.plot import render_number
from starforge.cli.session import open_console
from starforge.contract.comparing import POINTS_AT_MOST, ComparedCurve, Comparison
from starforge.contract.results import Curve

PLOTTED_RUNS: Final = 4
_POINTS: Final = 500
_CELL: Final = 40


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option(
    "--metric", "keys", multiple=True, metavar="KEY", help="Compare by this metric; may be given several times."
)
@click.option("--all", "every", is_flag=True, help="Show all settings, not only those that differ.")
@click.option("--plot/--no-plot", default=None, help="Draw the curves; default: for up to 4 runs in a terminal.")
@click.option(
    "--points", type=click.IntRange(2, POINTS_AT_MOST), default=_POINTS, show_default=True, help="Points a curve."
)
@json_option
def compare(  # noqa: PLR0913 - one parameter an option
    runs: tuple[str, ...], keys: tuple[str, ...], *, every: bool, plot: bool | None, points: int, as_json: bool
) -> None:
    r"""Lay runs side by side: metrics, settings, what differs.

    Up to 50 runs. Without --metric, the one is taken that says most of all of them.

    \b
    JSON: {runs: [{id, name, state, …}], keys, key_count, primary: {key, better},
           curves: [{job, key, steps, values, times, total_points, last,
                     low, low_step, high, high_step}],
           settings: [{name, values, differs}]}
    `values` of a setting are in the order of `runs`, null where a run has none.
    """
    with open_console() as console:
        found = console.compare(runs, keys, points)
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    _print_runs(found)
    _print_settings(found, every=every)
    if plot or (plot is None and sys.stdout.isatty() and len(found.runs) <= PLOTTED_RUNS):
        _plot(found)


def _print_runs(found: Comparison) -> None:
    curves = {(curve.job, curve.key): curve for curve in found.curves}
    headers = ["RUN", "NAME", "STATE"]
    for key in found.keys:
        headers += [key, "BEST"] if _is_primary(found, key) else [key, "LOWEST", "HIGHEST"]
    rows = [
        (
            run.id,
            run.name,
            run.state,
            *(cell for key in found.keys for cell in _cells(found, key, curves.get((run.id, key)))),
        )
        for run in found.runs
    ]
    print_table(headers, rows)
    if not found.keys:
        note("none of the runs has reported a metric yet")
    for key in found.keys:
        if not any(curve.key == key for curve in found.curves):
            note(f"none of the runs has reported {key!r}; sf job metrics {found.runs[0].id} lists what there is")


def _cells(found: Comparison, key: str, curve: ComparedCurve | None) -> tuple[str, ...]:
    if curve is None:
        return ("-", "-") if _is_primary(found, key) else ("-", "-", "-")
    low, high = render_number(curve.low), render_number(curve.high)
    if found.primary is not None and _is_primary(found, key):
        return render_number(curve.last), low if found.primary.better == "lower" else high
    return render_number(curve.last), low, high


def _is_primary(found: Comparison, key: str) -> bool:
    return found.primary is not None and found.primary.key == key


def _print_settings(found: Comparison, *, every: bool) -> None:
    shown = [one for one in found.settings if one.differs or every]
    click.echo()
    if not shown:
        click.echo("the settings are the same")
        return
    rows = [(("* " if one.differs else "  ") + one.name, *map(_render, one.values)) for one in shown]
    print_table(("SETTING", *(run.id for run in found.runs)), rows)


def _render(value: JsonValue) -> str:
    text = "-" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _CELL else text[: _CELL - 1] + "…"


def _plot(found: Comparison) -> None:
    names = {run.id: run.name for run in found.runs}
    for curve in found.curves:
        title = f"{names[curve.job]} {curve.key}"
        drawn = Curve.model_construct(**{name: getattr(curve, name) for name in Curve.model_fields})
        click.echo("\n" + describe_curve(drawn, title))
