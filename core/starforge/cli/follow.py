"""Shows a job while it runs: log, changes of state, and at its end how it ended and its curve."""

import sys
from contextlib import closing
from typing import Final

import click

from starforge.cli.log_writers import LogWriter
from starforge.cli.output import find_width, has_colour, join_lines, note, paint
from starforge.cli.plot import draw_curve
from starforge.cli.run import INTERRUPTED
from starforge.cli.waiting import WaitingLine
from starforge.client.console import Console
from starforge.client.streams import AttemptBegins, Change, End, LogBytes, LogGap, Note, Start, Waiting, follow
from starforge.contract.api import EventView, JobView
from starforge.contract.curves import is_of_system, sort_keys
from starforge.contract.results import Curve
from starforge.contract.states import JobState
from starforge.errors import Bug, StarForgeError
from starforge.logtext import clean, clean_line
from starforge.wording import count_of

_STATE_COLOURS: Final = {"RUNNING": "blue", "SUCCEEDED": "green", "FAILED": "red", "STOPPED": "yellow"}
CURVE_POINTS: Final = 400
_DEFAULT_WIDTH: Final = 80


def follow_job(console: Console, job: str, log: LogWriter, start: Start | None = None) -> JobView | None:
    """Show `job` until it is over; None when the user interrupted, which leaves the job alone."""
    is_first = True
    waiting = WaitingLine()
    try:
        with closing(follow(console, job, start or Start())) as items:
            for item in items:
                if not isinstance(item, Waiting):
                    waiting.leave()
                match item:
                    case AttemptBegins(number):
                        log.finish()
                        log.break_line()
                        if not is_first or number > 1:
                            note(f"── attempt {number} ──")
                        is_first = False
                    case End(ended):
                        log.finish()
                        log.break_line()
                        return ended
                    case _:
                        _show_item(item, log, waiting)
    except KeyboardInterrupt:
        waiting.leave()
        log.finish()
        note(f"\nno longer following; {job} goes on. Again: sf job logs -f {job}   End it: sf job stop {job}")
        return None
    raise Bug("following ended without an end")


def show_end(console: Console, job: JobView) -> None:
    """Say how the job ended and, on a terminal, draw its curve."""
    why = f": {clean(job.note)}" if job.note else ""
    click.echo(f"{job.id} {paint_state(job.state)} ({job.reason}){why}", err=True)
    plot = find_plot(console, job.id) if sys.stdout.isatty() else None
    if plot is not None:
        click.echo(plot)


def find_plot(console: Console, job: str) -> str | None:
    """The curve that says most, drawn for the terminal; None when the job reported none, or it cannot be had."""
    try:
        known = console.metric_keys(job)
        training = {key: points for key, points in known.keys.items() if not is_of_system(key)}
        if not training:
            return None
        curve = console.curve(job, sort_keys(training, known.primary)[0], CURVE_POINTS)
    except StarForgeError as error:
        note(f"the curve is missing: {error}")
        return None
    return describe_curve(curve)


def describe_curve(curve: Curve, name: str = "") -> str:
    """The curve, drawn for the terminal under its key or `name`; a value that was reported once is told in a line."""
    called = clean_line(name or curve.key)
    if curve.total_points == 1:
        return f"{called} is {float(curve.values[0]):.4g} at step {curve.steps[0]}, reported once"
    values = [float(value) for value in curve.values]
    title = f"{called} ({count_of(curve.total_points, 'point')})"
    return draw_curve(curve.steps, values, title=title, width=find_width() or _DEFAULT_WIDTH)


def decide_exit_code(job: JobView | None) -> int:
    """What `sf` ends with: 0 only when the job succeeded, 130 when the user left before its end."""
    if job is None:
        return INTERRUPTED
    return 0 if job.state == JobState.SUCCEEDED else 1


def paint_state(state: str, *, err: bool = True) -> str:
    """A state in its colour, where colours are shown."""
    return paint(state, _STATE_COLOURS.get(state, "cyan"), colour=has_colour(err=err))


def _show_item(item: LogBytes | LogGap | Change | Waiting | Note, log: LogWriter, waiting: WaitingLine) -> None:
    if isinstance(item, LogBytes):
        log.write(item.content)
        return
    if isinstance(item, LogGap):
        log.leave_out(item.begin, item.end)
        return
    log.break_line()
    match item:
        case Change(event):
            _show_event(event)
        case Waiting(state, text):
            waiting.show(state, text)
        case Note(text):
            note(text)


def _show_event(event: EventView) -> None:
    times = f" {event.count} times" if event.count > 1 else ""
    what = paint_state(event.state) if event.state else event.kind
    text = " ".join(
        part for part in (what, f"({event.reason})" if event.reason else "", join_lines(event.note)) if part
    )
    click.echo(f"── {text}{times}", err=True)
