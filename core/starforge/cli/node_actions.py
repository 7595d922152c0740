"""`sf node drain`, `undrain`, `remove`, `mark-lost` and `end-unknown`."""

import sys

import click

from starforge.cli.fleet_views import open_fleets, read_options
from starforge.cli.output import json_option, note, print_json
from starforge.client.fleets import FleetConsole
from starforge.contract.fleets import DrainNode, EndUnknown, MarkLost, NodeChanged
from starforge.errors import InputError, NotFound
from starforge.wording import count_of, describe_nearest


@click.command()
@click.argument("node")
@click.option("--why", default="", help="Shown beside the machine.")
@click.option("--pause", is_flag=True, help="Pause what runs there; it goes on elsewhere by itself.")
@json_option
def drain(node: str, why: str, pause: bool, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Place nothing new on a machine.

    What runs there stays. With --pause it is asked for a checkpoint, gives its GPUs
    back, and goes on by itself on another machine; a job that has kept no checkpoint
    starts from the beginning there.

    \b
    JSON: {node, fleet, state, fence, jobs: [those that are paused now]}
    """
    with open_fleets() as console:
        changed = console.drain(node, read_options(DrainNode, why=why, pause=pause))
    stays = f"{count_of(len(changed.jobs), 'job')} there are being paused" if pause else "what runs there stays"
    _say(changed, f"{node} takes no new jobs; {stays}", as_json=as_json)
    if changed.jobs and not as_json:
        note(f"they go on elsewhere by themselves: {', '.join(changed.jobs)}")


@click.command()
@click.argument("node")
@json_option
def undrain(node: str, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Place on a machine again.

    \b
    JSON: {node, fleet, state, fence, jobs: []}
    """
    with open_fleets() as console:
        changed = console.undrain(node)
    _say(changed, f"{node} takes jobs again", as_json=as_json)


@click.command()
@click.argument("node")
@json_option
def remove(node: str, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Take a machine out of its fleet.

    It is refused while jobs live there.

    \b
    JSON: {node, fleet, state, fence, jobs: []}
    """
    with open_fleets() as console:
        changed = console.remove_node(node)
    _say(changed, f"{node} is removed from fleet {changed.fleet}", as_json=as_json)


@click.command("mark-lost")
@click.argument("node")
@click.option("--confirm", metavar="NODE", help="The machine's name once more, where nobody can be asked.")
@json_option
def mark_lost(node: str, confirm: str | None, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Declare a machine lost.

    It must be off, or cut from the storage. Its jobs fail as `node_lost` and are run
    elsewhere. While the machine still runs and reaches the storage, two attempts
    would write beside each other: make sure. When it comes back it ends what it
    still runs before it takes anything new.

    \b
    JSON: {node, fleet, state, fence, jobs: [those that failed]}
    """
    with open_fleets() as console:
        _require_known(console, node)
        if confirm is None:
            confirm = _ask_name(node, as_json=as_json)
        changed = console.mark_lost(node, read_options(MarkLost, confirm=confirm))
    _say(changed, f"{node} is marked lost; {count_of(len(changed.jobs), 'job')} failed as node_lost", as_json=as_json)
    if changed.jobs and not as_json:
        note(f"they are run elsewhere: {', '.join(changed.jobs)}")


@click.command("end-unknown")
@click.argument("node")
@click.argument("attempt")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def end_unknown(node: str, attempt: str, yes: bool, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""End an unknown container.

    One that carries this console's mark and that its records do not know, such as a
    job that is newer than a restored backup: `sf fleet show` names them. It has 30 s
    to end, then it is removed. Asks on a terminal; elsewhere, and with --json, --yes
    is needed.

    \b
    JSON: {node, attempt, ending: true}
    """
    if not yes and (as_json or not sys.stdin.isatty()):
        raise InputError(
            f"{attempt} was not ended",
            why="nobody can be asked whether it may be: " + ("--json was given" if as_json else "stdin is no terminal"),
            next_step=f"sf node end-unknown {node} {attempt} --yes",
        )
    if not yes:
        click.confirm(f"end {attempt} on {node}? What it has not saved is lost", abort=True, err=True)
    with open_fleets() as console:
        console.end_unknown(node, read_options(EndUnknown, attempt=attempt))
    if as_json:
        print_json({"node": node, "attempt": attempt, "ending": True})
    else:
        click.echo(f"{attempt} is ending; its GPUs are free once {node} tells so")


def _require_known(console: FleetConsole, node: str) -> None:
    """Raises NotFound for a machine that there is not, before anybody is asked about it."""
    names = [known.name for known in console.nodes().items]
    if node not in names:
        raise NotFound(f"there is no node {node!r}", next_step=describe_nearest(node, names) or "sf node ls")


def _ask_name(node: str, *, as_json: bool) -> str:
    if as_json or not sys.stdin.isatty():
        raise InputError(
            f"{node} was not marked lost",
            why="nobody can be asked: " + ("--json was given" if as_json else "stdin is no terminal"),
            next_step=f"sf node mark-lost {node} --confirm {node}",
        )
    return str(click.prompt(f"is {node} off, or cut from the storage? Its name once more", err=True))


def _say(changed: NodeChanged, text: str, *, as_json: bool) -> None:
    if as_json:
        print_json(changed.model_dump(mode="json"))
    else:
        click.echo(text)
