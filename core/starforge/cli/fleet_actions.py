"""`sf fleet create`."""

from typing import Literal

import click

from starforge.cli.fleet_views import open_fleets, read_options
from starforge.cli.output import json_option, note, print_json
from starforge.contract.fleets import CreateFleet


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
