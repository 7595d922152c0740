"""`sf admin window`: when fleets, teams and profiles may run."""

from typing import Any, Final

import click

from starforge.cli.lazy import LazyCommand, LazyGroup
from starforge.cli.output import json_option, print_json, print_table
from starforge.cli.session import open_console
from starforge.cli.windows import describe_now, warn_of_lost
from starforge.client.windows import WindowConsole
from starforge.contract.windows import SetWindow, WindowKind
from starforge.wording import count_of

_COMMANDS: Final = {
    "set": LazyCommand("starforge.cli.admin_window:set_window", "Let a fleet, team or profile run at times only."),
    "ls": LazyCommand("starforge.cli.admin_window:ls", "List the windows."),
    "rm": LazyCommand("starforge.cli.admin_window:rm", "Let a fleet, team or profile run at any time."),
}
_kind_argument: Final = click.argument("kind", type=click.Choice(["fleet", "team", "profile"]), metavar="KIND")


@click.group(cls=LazyGroup, lazy=_COMMANDS)
def window() -> None:
    """Say when fleets, teams and profiles may run.

    A job starts only while every window that binds it is open: its fleet's, its
    team's, and that of each profile it asks for. In time before one of them closes
    it is asked for a checkpoint and stopped; it goes on when all are open again.
    """


@click.command("set")
@_kind_argument
@click.argument("name")
@click.option("--zone", required=True, help="The time zone of the hours, for instance Europe/Berlin.")
@click.option("--open", multiple=True, required=True, metavar="TEXT", help="Days and hours; repeatable.")
@click.option("--except", "without", multiple=True, metavar="DATE", help="No span starts then; repeatable.")
@click.option("--no-continue", is_flag=True, help="What it stopped stays stopped.")
@json_option
def set_window(kind: WindowKind, name: str, *, no_continue: bool, as_json: bool, **hours: Any) -> None:  # noqa: ANN401 - click's
    r"""Let a fleet, team or profile run at times only.

    It replaces the window that was there. KIND is fleet, team or profile; a profile
    is a series or family of GPUs, cpu or any, as users name it.

    \b
    --open 'mon-fri 20:00-08:00' --open 'sat,sun 00:00-24:00'
    --except 2026-12-24

    An end that is not behind its start is on the day after. A span belongs to the
    day on which it starts. Jobs that run while it is closed are asked for a
    checkpoint and stopped.

    \b
    JSON: {kind, name, zone, open: [text], without: [date], goes_on, is_open,
           changes_at, lost, set_by, set_at}
    """
    wanted = SetWindow(**hours, goes_on=not no_continue)
    with open_console() as console:
        kept = WindowConsole(console.connection).set_window(kind, name, wanted)
    if as_json:
        print_json(kept.model_dump(mode="json"))
    else:
        click.echo(f"the window of {kept.kind} {kept.name} {describe_now(kept)}")


@click.command()
@json_option
def ls(as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""List the windows.

    \b
    JSON: {items: [{kind, name, zone, open: [text], without: [date], goes_on,
                    is_open, changes_at, lost, set_by, set_at}]}
    """
    with open_console() as console:
        found = WindowConsole(console.connection).windows().items
    if as_json:
        print_json({"items": [one.model_dump(mode="json") for one in found]})
        return
    if not found:
        click.echo("there is no window: everything may run at any time")
        return
    rows = [
        (
            f"{one.kind} {one.name}",
            describe_now(one),
            "yes" if one.goes_on else "no",
            one.zone,
            ", ".join(one.open) + (f", except {count_of(len(one.without), 'date')}" if one.without else ""),
        )
        for one in found
    ]
    print_table(("WINDOW", "NOW", "JOBS GO ON", "ZONE", "OPEN"), rows)
    warn_of_lost(found)


@click.command()
@_kind_argument
@click.argument("name")
@json_option
def rm(kind: WindowKind, name: str, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Let a fleet, team or profile run at any time.

    Jobs that its window stopped go on, where they were to.

    \b
    JSON: {kind, name, removed: true}
    """
    with open_console() as console:
        WindowConsole(console.connection).remove_window(kind, name)
    if as_json:
        print_json({"kind": kind, "name": name, "removed": True})
    else:
        click.echo(f"{kind} {name} has no window any more")
