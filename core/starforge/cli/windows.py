"""`sf windows`: when what the caller's jobs run on opens and closes next."""

from collections.abc import Iterable
from datetime import UTC, datetime

import click

from starforge.cli.output import json_option, note, print_json, print_table, warn
from starforge.cli.session import open_console
from starforge.client.windows import WindowConsole
from starforge.contract.windows import EDGES_SHOWN, MOST_EDGES, WindowView


@click.command()
@click.option(
    "--edges", type=click.IntRange(1, MOST_EDGES), default=EDGES_SHOWN, show_default=True, help="How many to show."
)
@json_option
def windows(edges: int, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Show when fleets, profiles and your team may run.

    A job starts only while every window that binds it is open. Times are those of
    the window's own zone, and UTC.

    \b
    JSON: {windows: [{kind, name, zone, open: [text], without: [date], goes_on,
                      is_open, changes_at, lost, set_by, set_at}],
           edges: [{at, edge: opens or closes, kind, name, zone, local}]}
    """
    with open_console() as console:
        hours = WindowConsole(console.connection).opening_hours(edges)
    if as_json:
        print_json(hours.model_dump(mode="json"))
        return
    if not hours.windows:
        click.echo("there is no window: everything may run at any time")
        return
    rows = [(one.local, one.zone, describe_utc(one.at), one.edge, f"{one.kind} {one.name}") for one in hours.edges]
    if rows:
        print_table(("LOCAL", "ZONE", "UTC", "EDGE", "WINDOW"), rows)
    for one in hours.windows:
        note(f"{one.kind} {one.name} {describe_now(one)}")
    warn_of_lost(hours.windows)


def describe_now(window: WindowView) -> str:
    """How a window is now, and until when."""
    if window.lost:
        return "is closed: its time zone is not known"
    if window.changes_at is None:
        return "is always open" if window.is_open else "is closed, and never opens again"
    return f"is {'open' if window.is_open else 'closed'} until {describe_utc(window.changes_at)} UTC"


def warn_of_lost(windows: Iterable[WindowView]) -> None:
    """Say of each window that nobody knows the hours of what to do about it."""
    for one in windows:
        if one.lost:
            warn(f"the window of {one.kind} {one.name} {one.lost}")


def describe_utc(at: float) -> str:
    """The minute in UTC."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M}"
