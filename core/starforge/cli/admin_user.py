"""`sf admin user`: who may sign in, in which role and team."""

from typing import Final

import click

from starforge.cli.lazy import LazyCommand, LazyGroup
from starforge.cli.output import json_option, note, print_json, print_table
from starforge.cli.session import open_console_as
from starforge.client.people import PeopleConsole
from starforge.contract.people import ROLES, RoleName, UserView

_HERE: Final = "starforge.cli.admin_user"
_COMMANDS: Final = {
    "add": LazyCommand(f"{_HERE}:add", "Add a user."),
    "ls": LazyCommand(f"{_HERE}:ls", "List the users."),
    "set": LazyCommand(f"{_HERE}:change", "Change a user's role or team, or whether they may sign in."),
}
_role_type: Final = click.Choice(ROLES)


@click.group(cls=LazyGroup, lazy=_COMMANDS)
def user() -> None:
    """Say who may sign in, in which role and team.

    A viewer reads. A member submits jobs, too. An operator looks after machines,
    queue, windows, maintenance and everybody's jobs, too. An admin does everything.
    """


@click.command()
@click.argument("name")
@click.option("--role", type=_role_type, default="member", show_default=True, help="What they may do.")
@json_option
def add(name: str, role: RoleName, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Add a user.

    They sign in with a link that is made on the Admin page, or by
    `starforge-console user link` on the console's machine; or through the identity
    provider, where the console has one.

    \b
    JSON: {name, role, active, team, held: {gpus, jobs}}
    """
    with open_console_as(PeopleConsole) as console:
        made = console.add_user(name, role)
    if as_json:
        print_json(made.model_dump(mode="json"))
        return
    click.echo(f"added {made.name} as {made.role}")
    note("a link to sign in with is made on the Admin page, or by 'starforge-console user link' on its machine")


@click.command()
@json_option
def ls(as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""List the users.

    \b
    JSON: {items: [{name, role, active, team, held: {gpus, jobs}}]}
    """
    with open_console_as(PeopleConsole) as console:
        found = console.users().items
    if as_json:
        print_json({"items": [one.model_dump(mode="json") for one in found]})
        return
    rows = [
        (one.name, one.role, one.team or "-", "yes" if one.active else "no", str(one.held.gpus), str(one.held.jobs))
        for one in found
    ]
    print_table(("USER", "ROLE", "TEAM", "ACTIVE", "GPUS", "JOBS"), rows)


@click.command("set")
@click.argument("name")
@click.option("--role", type=_role_type, help="What they may do from now on.")
@click.option("--team", metavar="TEAM", help="The team they belong to from now on.")
@click.option("--no-team", is_flag=True, help="Let them belong to no team.")
@click.option("--active/--inactive", default=None, help="Let them sign in, or not any more.")
@json_option
def change(name: str, *, as_json: bool, **wanted: str | bool | None) -> None:
    r"""Change a user's role or team, or whether they may sign in.

    Everything counts at once. Whoever may not sign in any more has no token and no
    session left; their jobs go on.

    \b
    JSON: {name, role, active, team, held: {gpus, jobs}}
    """
    changes = _read_changes(wanted)
    with open_console_as(PeopleConsole) as console:
        for part, value in changes:
            shown = console.change_user(name, part, value)
    if as_json:
        print_json(shown.model_dump(mode="json"))
    else:
        click.echo(_describe(shown))


def _read_changes(wanted: dict[str, str | bool | None]) -> list[tuple[str, str | bool | None]]:
    if wanted["team"] is not None and wanted["no_team"]:
        raise click.UsageError("give --team or --no-team, not both")
    changes = [(part, wanted[part]) for part in ("role", "team", "active") if wanted[part] is not None]
    if wanted["no_team"]:
        changes.append(("team", None))
    if not changes:
        raise click.UsageError("name a change: --role, --team, --no-team, --active or --inactive")
    return changes


def _describe(user: UserView) -> str:
    team = f"in team {user.team}" if user.team else "in no team"
    return f"{user.name} is {user.role}, {team}" + ("" if user.active else ", and may not sign in")
