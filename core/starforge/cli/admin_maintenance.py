"""`sf admin maintenance`."""

import time
from typing import Final

import click

from starforge.cli.lazy import LazyCommand, LazyGroup
from starforge.cli.output import json_option, print_json
from starforge.cli.session import open_console_as
from starforge.client.maintenance import MaintenanceConsole
from starforge.contract.maintenance import BeginMaintenance, MaintenanceView
from starforge.wording import count_of, describe_duration

_HERE: Final = "starforge.cli.admin_maintenance"
_COMMANDS: Final = {
    "drain": LazyCommand(f"{_HERE}:drain", "Start nothing any more, and pause what runs."),
    "resume": LazyCommand(f"{_HERE}:resume", "Start jobs again."),
    "status": LazyCommand(f"{_HERE}:status", "Say whether the console is in maintenance."),
}


@click.group(cls=LazyGroup, lazy=_COMMANDS)
def maintenance() -> None:
    """Empty all machines for a while.

    While it lasts nothing is started, also after a restart of the console.
    """


@click.command()
@click.option("--reason", help="Shown to everybody whose jobs wait.")
@json_option
def drain(reason: str | None, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Start nothing any more, and pause what runs.

    Each job is asked for a checkpoint, gives its GPUs back and waits. One that has
    kept none starts from the beginning afterwards. Said again it pauses whatever was
    missed, and takes another --reason.

    \b
    JSON: {since, by, reason, running, paused, queued}
    """
    with open_console_as(MaintenanceConsole) as console:
        _say(console.begin_maintenance(BeginMaintenance(reason=reason)), as_json=as_json)


@click.command()
@json_option
def resume(as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Start jobs again.

    Those that maintenance paused go on by themselves; those that their users paused
    stay paused.

    \b
    JSON: {since: null, by, reason, running, paused, queued}
    """
    with open_console_as(MaintenanceConsole) as console:
        _say(console.end_maintenance(), as_json=as_json)


@click.command()
@json_option
def status(as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Say whether the console is in maintenance.

    Once no job runs any more, the machines are empty.

    \b
    JSON: {since: null where there is none, by, reason, running, paused, queued}
    """
    with open_console_as(MaintenanceConsole) as console:
        _say(console.maintenance(), as_json=as_json)


def _say(view: MaintenanceView, *, as_json: bool) -> None:
    if as_json:
        print_json(view.model_dump(mode="json"))
        return
    counts = f"{count_of(view.running, 'job')} still running, {view.paused} paused, {view.queued} queued"
    if view.since is None:
        click.echo(f"no maintenance; {counts}")
        return
    reason = f" ({view.reason})" if view.reason else ""
    ago = describe_duration(max(0.0, time.time() - view.since))
    click.echo(f"in maintenance by {view.by} for {ago}{reason}; {counts}")
