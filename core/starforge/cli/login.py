"""`sf login`, `sf logout`, `sf status`: who is signed in where."""

import re
import sys
import time
from typing import Any, Final

import click

from starforge import __version__
from starforge.cli.output import json_option, note, print_json, warn
from starforge.cli.quota import describe_quota, is_limited
from starforge.cli.session import open_console
from starforge.client.console import Console
from starforge.client.http import Connection, is_readable_on_the_way, parse_server
from starforge.client.login import Session, forget_session, save_registry, save_session
from starforge.contract.api import WhoAmI
from starforge.contract.quotas import QuotaList
from starforge.errors import InputError, SignInRequired
from starforge.hardware.profiles import BUILT_IN
from starforge.wording import describe_duration, join_sentences

_TOKEN: Final = re.compile(r"sf[a-z]_[A-Za-z0-9_-]{20,200}")
_MAKE_ONE: Final = "make one with `starforge-console token create --user NAME`, or on the Tokens page"


@click.command()
@click.option("--server", required=True, envvar="SF_SERVER", help="The console's address.")
@json_option
def login(server: str, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Sign in at a server.

    The token comes from standard input, or is asked for without showing it. It is kept for this user alone, and the
    server's profiles with it, so that checking an experiment needs no network.

    \b
    JSON: {server, user, role, scopes: [text], token_expires_at, profiles: [text]}
    """
    address = parse_server(server)
    if is_readable_on_the_way(address):
        warn(f"{address} is not encrypted: the token can be read on the way")
    token = _read_token()
    with Connection(address, None) as stranger:
        Console(stranger).meta()  # no token is sent where this version is not served
    try:
        with Connection(address, token) as connection:
            console = Console(connection)
            who = console.whoami()
            profiles = [profile.model_dump() for profile in console.profiles().items]
    except SignInRequired as error:
        # Who is at it already is not told to sign in.
        why = join_sentences(error.what, error.why)
        raise SignInRequired(f"{address} does not take this token", why=why, next_step=_MAKE_ONE) from error
    save_session(Session(address, token))
    save_registry(profiles)
    names = list(dict.fromkeys(str(profile["name"]) for profile in profiles))
    if as_json:
        print_json({"server": address, **describe_who(who), "profiles": names})
        return
    click.echo(f"signed in at {address} as {who.user} ({who.role})")
    note(f"profiles: {', '.join(dict.fromkeys([*BUILT_IN, *names]))}")


@click.command()
@json_option
def logout(as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Forget the server and the token.

    The token stays valid until it is revoked on the Tokens page.

    \b
    JSON: {server: text or null}
    """
    server = forget_session()
    if as_json:
        print_json({"server": server})
    else:
        click.echo(f"signed out of {server}" if server else "nobody was signed in")


@click.command()
@json_option
def status(as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Say who is signed in where, and what runs.

    \b
    JSON: {server, version, client, user, role, scopes, token_expires_at,
           jobs: {state: count},
           quotas: [{kind, name, gpus, jobs, series: [text] or null, gpu_hours,
                     storage_gib, profiles: [text] or null, held: {gpus, jobs},
                     gpu_seconds, stored_bytes, runs: [run],
                     other_runs: {runs, gpus, jobs, gpu_seconds, stored_bytes}
                     or null}] or null}
    jobs counts the user's newest 100. quotas are the user's own and the team's;
    a limit of null is none, and an older console tells of no quotas: null. Their
    numbers are the sums of their runs, and 'sf quota' shows these.
    """
    with open_console() as console:
        meta, who = console.meta(), console.whoami()
        jobs, quotas = console.jobs({"user": who.user}, 100), console.quotas()
        server = console.connection.server
    counts: dict[str, int] = {}
    for job in jobs:
        counts[job.state] = counts.get(job.state, 0) + 1
    if as_json:
        answer = {"server": server, "version": meta.server, "client": __version__}
        print_json({**answer, **describe_who(who), "jobs": counts, "quotas": _to_json(quotas)})
        return
    click.echo(f"{server}: StarForge {meta.server}, signed in as {who.user} ({who.role})")
    if who.token_expires_at is not None:
        click.echo(f"the token is valid for {describe_duration(who.token_expires_at - time.time())}")
    click.echo(f"jobs: {', '.join(f'{count} {state}' for state, count in sorted(counts.items())) or 'none'}")
    for quota in quotas.items if quotas else ():
        if is_limited(quota):
            click.echo(f"quota of {quota.kind} {quota.name}: {describe_quota(quota)}")


def describe_who(who: WhoAmI) -> dict[str, Any]:
    """The user as JSON."""
    return who.model_dump(mode="json")


def _to_json(quotas: QuotaList | None) -> list[dict[str, Any]] | None:
    return None if quotas is None else [quota.model_dump(mode="json") for quota in quotas.items]


def _read_token() -> str:
    if sys.stdin.isatty():
        token = str(click.prompt("Token", hide_input=True, err=True)).strip()
    else:
        token = sys.stdin.readline().strip()
    if not token:
        raise InputError("no token was given", why="standard input was empty", next_step=_MAKE_ONE)
    if not _TOKEN.fullmatch(token):
        raise InputError(
            "this is no token", why="a token looks like sfp_ and 43 letters and digits", next_step=_MAKE_ONE
        )
    return token
