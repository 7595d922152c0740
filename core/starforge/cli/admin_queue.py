"""`sf admin queue`."""

from typing import Final

import click

from starforge.cli.lazy import LazyCommand, LazyGroup
from starforge.cli.output import json_option, print_json
from starforge.cli.session import open_console_as
from starforge.client.queue import QueueConsole
from starforge.contract.queue import MoveInQueue, QueueMove

_HERE: Final = "starforge.cli.admin_queue"
_COMMANDS: Final = {
    "first": LazyCommand(f"{_HERE}:first", "Let a queued job stand before all others."),
    "last": LazyCommand(f"{_HERE}:last", "Let a queued job stand behind all others."),
    "release": LazyCommand(f"{_HERE}:release", "Let a queued job stand where it belongs."),
}


@click.group(cls=LazyGroup, lazy=_COMMANDS)
def queue() -> None:
    """Move queued jobs.

    Priority, fair share and age order the queue. What is moved stays where it was put
    until it starts, and its timeline says who moved it.
    """


@click.command()
@click.argument("job")
@json_option
def first(job: str, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Let a queued job stand before all others.

    Of several that were put first, the one that was put there last comes first. A
    quota, a closed window or a lack of room holds it all the same.

    \b
    JSON: {job, to}
    """
    _move(job, "first", f"{job} stands first in the queue until it starts", as_json=as_json)


@click.command()
@click.argument("job")
@json_option
def last(job: str, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Let a queued job stand behind all others.

    \b
    JSON: {job, to}
    """
    _move(job, "last", f"{job} stands last in the queue until it starts", as_json=as_json)


@click.command()
@click.argument("job")
@json_option
def release(job: str, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Let a queued job stand where it belongs.

    \b
    JSON: {job, to}
    """
    _move(job, "release", f"{job} stands where it belongs", as_json=as_json)


def _move(job: str, to: QueueMove, done: str, *, as_json: bool) -> None:
    with open_console_as(QueueConsole) as console:
        console.move_in_queue(job, MoveInQueue(to=to))
    if as_json:
        print_json({"job": job, "to": to})
    else:
        click.echo(done)
