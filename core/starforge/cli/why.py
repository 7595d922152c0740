"""`sf why`: why a queued job waits, and what would start it now."""

from collections.abc import Iterable

import click

from starforge.cli.output import json_option, print_json, print_table
from starforge.cli.session import open_console_as
from starforge.client.queue import QueueConsole
from starforge.contract.api import WaitView
from starforge.contract.queue import JobWhy, StartsWith
from starforge.wording import count_of


@click.command()
@click.argument("job")
@json_option
def why(job: str, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Say why a job waits, and what would start it now.

    Each machine is told with the first rule that keeps the job from it. What would
    start it was tried by the same rules: the job, submitted again with that change,
    starts at once as long as nothing else takes the place.

    \b
    JSON: {job, state, place, waits: [{reason, code, places, more}],
           nodes: [{fleet, node, why, code}],
           starts_with: [{change: gpus|series|fleet, value, fleet, node}]}
    """
    with open_console_as(QueueConsole) as console:
        told = console.why(job)
    if as_json:
        print_json(told.model_dump(mode="json"))
        return
    if told.place is None:
        click.echo(f"{job} is {told.state}: it does not wait in the queue")
        return
    click.echo(f"{job} is at place {told.place:,} of the queue")
    if not told.waits:
        click.echo("it has room, and starts with the next look at the queue")
        return
    _say(told)


def _say(told: JobWhy) -> None:
    click.echo("\nit waits for")
    for wait in told.waits:
        click.echo(f"  {_describe(wait)}")
    if told.nodes:
        click.echo("")
        print_table(("FLEET", "MACHINE", "WHY NOT"), [(one.fleet, one.node or "all", one.why) for one in told.nodes])
    click.echo("")
    if not told.starts_with:
        click.echo("no single change of GPUs, series or fleet would start it now")
        return
    click.echo("it would start at once, submitted again with")
    for line in _list_changes(told.starts_with):
        click.echo(f"  {line}")


def _describe(wait: WaitView) -> str:
    places = ", ".join(wait.places) + (f" and {wait.more} more" if wait.more else "")
    return f"{places}: {wait.reason}" if places else wait.reason


def _list_changes(changes: Iterable[StartsWith]) -> Iterable[str]:
    for one in changes:
        yield f"{_name_change(one)}, on {one.fleet}/{one.node}"


def _name_change(one: StartsWith) -> str:
    match one.change:
        case "gpus":
            return f"{count_of(int(one.value), 'GPU')} a machine"
        case "series":
            return "GPUs of any series" if one.value == "any" else f"{one.value} GPUs"
        case "fleet":
            return f"fleet {one.value}"
