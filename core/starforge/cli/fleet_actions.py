"""`sf fleet create` and `sf fleet token`."""

from typing import Literal

import click

from starforge.cli.fleet_views import open_fleets, read_options
from starforge.cli.output import json_option, note, print_json, warn
from starforge.contract.fleets import CreateFleet, MintJoinToken
from starforge.wording import count_of, describe_duration


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
@click.argument("fleet")
@click.option(
    "--hours", type=click.FloatRange(0, 2160, min_open=True), default=24.0, show_default=True, help="Its life."
)
@click.option("--uses", type=click.IntRange(1, 1000), default=10, show_default=True, help="For so many machines.")
@json_option
def token(fleet: str, hours: float, uses: int, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Let machines join a fleet.

    Prints the line to paste on each machine, as root. The line holds a join token,
    which is shown this once. The machine appears in `sf node ls` once it has
    joined.

    \b
    JSON: {id, token, line, lines: {curl, wget, sudo}, expires_at, uses, doubt}
    """
    with open_fleets() as console:
        minted = console.mint_join_token(fleet, read_options(MintJoinToken, hours=hours, uses=uses))
    if as_json:
        print_json(minted.model_dump(mode="json"))
        return
    click.echo(minted.line)
    life = describe_duration(hours * 3600)
    note(f"paste it as root on the machine; it is good for {count_of(minted.uses, 'machine')} within {life}")
    note(f"with wget: {minted.lines['wget']}")
    note(f"with sudo: {minted.lines['sudo']}")
    if minted.doubt:
        warn(minted.doubt)
