"""`sf login`, `sf logout`, `sf status`: who is signed in where."""

import getpass
import platform
import re
import sys
import time
from collections.abc import Sequence
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
from starforge.contract.device import FEATURE
from starforge.contract.quotas import QuotaList
from starforge.errors import InputError, SignInRequired
from starforge.hardware.profiles import BUILT_IN
from starforge.logtext import clean
from starforge.wording import describe_duration, join_sentences

_TOKEN: Final = re.compile(r"sf[a-z]_[A-Za-z0-9_-]{20,200}")
_MAKE_ONE: Final = "make one with `starforge-console token create --user NAME`, or on the Tokens page"


@click.command()
@click.option("--server", required=True, envvar="SF_SERVER", help="The console's address.")
@click.option("--code", "by_code", is_flag=True, help="By a code, also where standard input is no terminal.")
@click.option("--token", "by_token", is_flag=True, help="Ask for a token, and show no code.")
@json_option
def login(server: str, by_code: bool, by_token: bool, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Sign in at a server.

    In a terminal it shows a code and an address: open the address in any browser,
    where you are signed in, and approve the code. Where standard input is no
    terminal, the token is read from there. The token is kept for this user alone,
    and the server's profiles with it, so that checking an experiment needs no
    network.

    \b
    JSON: {server, user, role, scopes: [text], token_expires_at, profiles: [text]}
    """
    if by_code and by_token:
        raise click.UsageError("give --code or --token, not both")
    address = parse_server(server)
    if is_readable_on_the_way(address):
        warn(f"{address} is not encrypted: the token can be read on the way")
    piped = None if by_code or sys.stdin.isatty() else _read_piped()
    with Connection(address, None) as stranger:
        # No token is sent where this version is not served.
        meta = Console(stranger).meta()
        token = piped or _ask(stranger, meta.features, by_code=by_code, by_token=by_token)
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


def _ask(stranger: Connection, features: Sequence[str], *, by_code: bool, by_token: bool) -> str:
    """The token that whoever sits here gives or approves."""
    if by_token or (FEATURE not in features and not by_code):
        return _check_token(str(click.prompt("Token", hide_input=True, err=True)).strip())
    if FEATURE not in features:
        raise InputError(
            f"{stranger.server} does not sign in by a code", why="it is an older console", next_step=_MAKE_ONE
        )
    from starforge.client.device import DeviceConsole  # noqa: PLC0415 - few sign-ins need it

    console = DeviceConsole(stranger)
    begun = console.begin(f"sf {__version__} of {_describe_user()} on {platform.node() or 'an unnamed machine'}")
    note(f"open {clean(begun.verification_uri)} in a browser, and approve the code")
    note(f"\n    {clean(begun.user_code)}\n")
    note(f"waiting for that, {describe_duration(begun.expires_in)} at most; Ctrl-C ends it")
    return console.wait(begun).access_token


def _describe_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "somebody"


def _read_piped() -> str:
    return _check_token(sys.stdin.readline().strip())


def _check_token(token: str) -> str:
    if not token:
        raise InputError("no token was given", why="standard input was empty", next_step=_MAKE_ONE)
    if not _TOKEN.fullmatch(token):
        raise InputError(
            "this is no token", why="a token looks like sfp_ and 43 letters and digits", next_step=_MAKE_ONE
        )
    return token
