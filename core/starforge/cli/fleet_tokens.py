"""`sf fleet token`: make, list and revoke the tokens by which machines join."""

import time
from typing import Final

import click

from starforge.cli.fleet_views import open_fleets, read_options
from starforge.cli.lazy import LazyCommand, LazyGroup
from starforge.cli.output import json_option, note, print_json, print_table, warn
from starforge.contract.bounds import LARGEST_NUMBER
from starforge.contract.fleets import MintJoinToken
from starforge.wording import count_of, describe_duration

_COMMANDS: Final = {
    "create": LazyCommand("starforge.cli.fleet_tokens:create", "Make a join token."),
    "ls": LazyCommand("starforge.cli.fleet_tokens:ls", "List a fleet's join tokens."),
    "revoke": LazyCommand("starforge.cli.fleet_tokens:revoke", "Let no machine in any more with a token."),
}


@click.group(cls=LazyGroup, lazy=_COMMANDS, default="create")
def token() -> None:
    """Let machines join a fleet.

    `sf fleet token FLEET` makes a join token; the commands below are for those that
    were made.
    """


@click.command()
@click.argument("fleet")
@click.option(
    "--hours", type=click.FloatRange(0, 2160, min_open=True), default=24.0, show_default=True, help="Its life."
)
@click.option("--uses", type=click.IntRange(1, 1000), default=10, show_default=True, help="For so many machines.")
@json_option
def create(fleet: str, hours: float, uses: int, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Make a join token.

    Prints the line to paste on each machine, as root. The line holds a join token,
    which is shown this once. The machine appears in `sf node ls` once it has
    joined. `sf fleet token FLEET` is short for this.

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


@click.command()
@click.argument("fleet")
@json_option
def ls(fleet: str, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""List a fleet's join tokens.

    Those that still let somebody in. Their text was shown once and cannot be read
    again.

    \b
    JSON: {items: [{id, uses_left, created_by, created_at, expires_at}]}
    """
    with open_fleets() as console:
        tokens = console.join_tokens(fleet).items
    if as_json:
        print_json({"items": [one.model_dump(mode="json") for one in tokens]})
        return
    if not tokens:
        click.echo(f"no join token lets anybody in: sf fleet token {fleet}")
        return
    now = time.time()
    rows = [
        (str(one.id), str(one.uses_left), one.created_by, describe_duration(max(0.0, one.expires_at - now)))
        for one in tokens
    ]
    print_table(("TOKEN", "USES LEFT", "MADE BY", "ENDS IN"), rows)


@click.command()
@click.argument("fleet")
@click.argument("token", type=click.IntRange(1, LARGEST_NUMBER))
@json_option
def revoke(fleet: str, token: int, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Let no machine in any more with a token.

    TOKEN is its number in `sf fleet token ls`. Machines that have joined stay.

    \b
    JSON: {fleet, token, revoked: true}
    """
    with open_fleets() as console:
        console.revoke_join_token(fleet, token)
    if as_json:
        print_json({"fleet": fleet, "token": token, "revoked": True})
    else:
        click.echo(f"join token {token} of fleet {fleet} lets nobody in any more")
