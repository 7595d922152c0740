"""`forgelet join`."""

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from starforge.cli.output import json_option, note, print_json, warn
from starforge.contract.launch import Secret
from starforge.errors import InputError

if TYPE_CHECKING:
    from starforge_forgelet.joining import Joined

_MOST_TOKEN_BYTES = 4096


@click.command()
@click.option("--server", required=True, help="The console's public address.")
@click.option("--fleet", envvar="FORGE_FLEET", required=True, help="The fleet to join.  [env: FORGE_FLEET]")
@click.option("--token", help="The join token; better in FORGE_JOIN_TOKEN, or '-' to read it from standard input.")
@click.option("--advertise", default="", help="HOST:PORT where the console reaches this machine; else found.")
@click.option("--port", default=7070, show_default=True, type=click.IntRange(1, 65535), help="The daemon's own port.")
@json_option
def join(*, server: str, fleet: str, token: str | None, advertise: str, port: int, as_json: bool) -> None:  # noqa: PLR0913 - one parameter an option
    r"""Register this machine with a console, or renew its identity there: the node keeps its name.

    The join token is the whole authorisation. A machine that has lost its state directory becomes a new node.

    \b
    JSON: {node, fleet, install, advertise, gpus_without_series, replaces}
    """
    from starforge_forgelet.joining import Joining, join  # noqa: PLC0415 - a help text needs none of it
    from starforge_forgelet.settings import load_settings  # noqa: PLC0415 - the same
    from starforge_forgelet.state import NodeState  # noqa: PLC0415 - the same

    settings = load_settings()
    was_here = NodeState(settings.state_dir).has_joined()
    joining = Joining(
        server=server, fleet=fleet, token=_read_token(token, may_be_missing=was_here), advertise=advertise, port=port
    )
    joined = asyncio.run(join(joining, settings))
    if as_json:
        print_json(_show(joined))
        return
    identity, answer = joined.identity, joined.answer
    note(f"this machine is node {identity.node} of fleet {identity.fleet}, called at {identity.advertise}")
    if answer.gpus_without_series:
        warn(
            f"the console knows no series for {', '.join(answer.gpus_without_series)}: jobs that ask for a series are"
            " not placed here until an administrator adds it on the fleet's page"
        )
    if answer.replaces:
        warn(f"silent nodes have the same hostname: {', '.join(answer.replaces)}; an administrator may remove them")
    note("next: forgelet serve")


def _read_token(given: str | None, *, may_be_missing: bool) -> Secret:
    """The token; a machine that joins again proves itself by its key, and needs none. Raises InputError."""
    text = os.environ.get("FORGE_JOIN_TOKEN", "") if given is None else given
    if text == "-":
        text = sys.stdin.read(_MOST_TOKEN_BYTES)
    if not text.strip() and not may_be_missing:
        raise InputError(
            "there is no join token",
            next_step="set FORGE_JOIN_TOKEN to the token that the fleet's page shows, or give '--token -'",
        )
    return Secret(text.strip())


def _show(joined: "Joined") -> dict[str, Any]:
    return {
        "node": joined.identity.node,
        "fleet": joined.identity.fleet,
        "install": joined.identity.install,
        "advertise": joined.identity.advertise,
        "gpus_without_series": list(joined.answer.gpus_without_series),
        "replaces": list(joined.answer.replaces),
    }
