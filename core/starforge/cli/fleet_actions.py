"""`sf fleet create` and `sf fleet delete`."""

import sys
from typing import Literal

import click

from starforge.cli.fleet_views import open_fleets, read_options
from starforge.cli.output import json_option, note, print_json
from starforge.contract.fleets import CreateFleet
from starforge.errors import InputError


@click.command()
@click.argument("name")
@click.option("--kind", type=click.Choice(["node", "local"]), default="node", show_default=True, help="What runs jobs.")
@click.option(
    "--network",
    type=click.Choice(["bridge", "host", "none"]),
    default="bridge",
    show_default=True,
    help="How a job's container reaches others.",
)
@click.option("--user", metavar="UID:GID", help="Whom jobs run as; `image` keeps the image's own user.")
@json_option
def create(
    name: str,
    kind: Literal["node", "local"],
    network: Literal["bridge", "host", "none"],
    user: str | None,
    as_json: bool,  # noqa: FBT001 - click passes flags so
) -> None:
    r"""Make a fleet.

    It takes jobs at once, without a restart of the console.

    \b
    JSON: {name, kind, network, user, nodes, ready, gpus: {state: count}}
    """
    request = read_options(CreateFleet, name=name, kind=kind, network=network, user=user)
    with open_fleets() as console:
        made = console.create_fleet(request)
    if as_json:
        print_json(made.model_dump(mode="json"))
        return
    click.echo(f"fleet {made.name} of kind {made.kind} is there")
    if made.kind == "node":
        note(f"let machines join it: sf fleet token {made.name}")


@click.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def delete(name: str, yes: bool, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Delete a fleet.

    It is refused while the fleet has jobs or machines. The history of its jobs stays
    readable, its join tokens end, and its name may be used again. Asks on a terminal;
    elsewhere, and with --json, --yes is needed.

    \b
    JSON: {name, deleted: true}
    """
    if not yes and (as_json or not sys.stdin.isatty()):
        raise InputError(
            f"fleet {name} was not deleted",
            why="nobody can be asked whether it may be: " + ("--json was given" if as_json else "stdin is no terminal"),
            next_step=f"sf fleet delete {name} --yes",
        )
    if not yes:
        click.confirm(f"delete fleet {name}?", abort=True, err=True)
    with open_fleets() as console:
        console.delete_fleet(name)
    if as_json:
        print_json({"name": name, "deleted": True})
    else:
        click.echo(f"fleet {name} is deleted")
