"""`starforge-console token` and `user`."""

import time
from typing import Final

import click

from starforge_console.cli.group import Commands
from starforge_console.cli.opening import link_of, open_ledger, read_settings
from starforge_console.domain.roles import Role

ROLES: Final = [role.value for role in reversed(Role)]
"""The widest last."""


@click.group(cls=Commands)
def token() -> None:
    """Personal tokens."""


@token.command("create")
@click.option("--user", "name", required=True, help="Whose token it is.")
@click.option("--scopes", default="read,submit", show_default=True, help="What it may do: read, submit, admin.")
@click.option("--days", default=90.0, show_default=True, help="How long it is valid.")
def create_token(name: str, scopes: str, days: float) -> None:
    """Print a new token and nothing else, to be piped into 'sf login'. The console may be running."""
    from starforge_console.accounts.users import issue_token  # noqa: PLC0415 - a help text needs none of it

    with open_ledger(read_settings()) as ledger:
        made = issue_token(ledger, name, scopes.split(","), days, time.time())
    click.echo(made.reveal())


@click.group(cls=Commands)
def user() -> None:
    """Users: a viewer reads, a member submits, an operator looks after machines, an admin does everything."""


@user.command("add")
@click.argument("name")
@click.option("--role", type=click.Choice(ROLES), default=Role.MEMBER.value, show_default=True)
def add_user(name: str, role: str) -> None:
    """Add a user and print a sign-in link, which works once, within an hour."""
    from starforge_console.accounts.acts import build_link, build_user  # noqa: PLC0415 - as above

    settings = read_settings()
    with open_ledger(settings) as ledger:
        ledger.write_now(build_user(name, Role(role), time.time()))
        made = ledger.write_now(build_link(name, time.time()))
    click.echo(link_of(settings, made.text))


@user.command("ls")
@click.option("--json", "as_json", is_flag=True, help="Print JSON with a stable schema.")
def list_users(*, as_json: bool) -> None:
    """Show every user.

    The JSON holds items: a list of name, role, active, team, gpus and jobs.
    """
    from starforge_console.accounts.user_command import show_users  # noqa: PLC0415 - a help text needs none of it

    with open_ledger(read_settings()) as ledger:
        show_users(ledger, as_json=as_json)


@user.command("set")
@click.argument("name")
@click.option("--role", type=click.Choice(ROLES), help="What the user may do from now on.")
@click.option("--active/--inactive", default=None, help="Whether the user may sign in.")
def set_user(name: str, role: str | None, *, active: bool | None) -> None:
    """Give a user another role, or let the user sign in or not any more: then all tokens and sessions end.

    The console may be running: it minds a change within a second.
    """
    from starforge_console.accounts.user_command import change_user  # noqa: PLC0415 - a help text needs none of it

    if role is None and active is None:
        raise click.UsageError("give --role, --active or --inactive")
    with open_ledger(read_settings()) as ledger:
        change_user(ledger, name, role, active=active)


@user.command("link")
@click.argument("name")
def make_link(name: str) -> None:
    """Print a new sign-in link for a user, which works once, within an hour."""
    from starforge_console.accounts.acts import build_link  # noqa: PLC0415 - as above

    settings = read_settings()
    with open_ledger(settings) as ledger:
        made = ledger.write_now(build_link(name, time.time()))
    click.echo(link_of(settings, made.text))


@user.command("team")
@click.argument("name")
@click.argument("team", required=False)
@click.option("--none", "leave", is_flag=True, help="Let the user belong to no team.")
def set_team(name: str, team: str | None, *, leave: bool) -> None:
    """Let a user belong to a team, whose quota then binds the user's jobs beside the user's own.

    A user belongs to one team at most. The console may be running.
    """
    from starforge_console.accounts.quota_command import put_in_team  # noqa: PLC0415 - a help text needs none of it

    if leave == (team is not None):
        raise click.UsageError("name a team, or give --none")
    with open_ledger(read_settings()) as ledger:
        put_in_team(ledger, name, team)
