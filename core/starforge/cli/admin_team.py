"""`sf admin team`: who belongs together, so that one quota binds their jobs."""

from typing import Final

import click

from starforge.cli.lazy import LazyCommand, LazyGroup
from starforge.cli.output import json_option, note, print_json, print_table
from starforge.cli.session import open_console_as
from starforge.client.people import PeopleConsole
from starforge.contract.people import UserView
from starforge.wording import count_of

_HERE: Final = "starforge.cli.admin_team"
_COMMANDS: Final = {
    "ls": LazyCommand(f"{_HERE}:ls", "List the teams with who is in them."),
    "set": LazyCommand(f"{_HERE}:change", "Let a user belong to a team, or to none."),
}


@click.group(cls=LazyGroup, lazy=_COMMANDS)
def team() -> None:
    """Say who belongs together.

    A team is there while somebody belongs to it or it has a quota, which then binds
    the jobs of its members together, beside the quota of each.
    """


@click.command()
@json_option
def ls(as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""List the teams with who is in them.

    \b
    JSON: {items: [{name, members: [text], held: {gpus, jobs}, quota: bool}]}
    """
    with open_console_as(PeopleConsole) as console:
        users, limited = console.users().items, {one.name for one in console.limits().items if one.kind == "team"}
    names = sorted(limited | {one.team for one in users if one.team})
    teams = {name: [one for one in users if one.team == name] for name in names}
    if as_json:
        items = [{**_to_json(name, members), "quota": name in limited} for name, members in teams.items()]
        print_json({"items": items})
        return
    if not teams:
        note("nobody is in a team: sf admin team set USER TEAM")
        return
    rows = [
        (
            name,
            ", ".join(sorted(one.name for one in members)) or "-",
            str(sum(one.held.gpus for one in members)),
            str(sum(one.held.jobs for one in members)),
            "yes" if name in limited else "no",
        )
        for name, members in teams.items()
    ]
    print_table(("TEAM", "MEMBERS", "GPUS", "JOBS", "QUOTA"), rows)


@click.command("set")
@click.argument("user")
@click.argument("team", required=False)
@click.option("--none", "nowhere", is_flag=True, help="Let the user belong to no team.")
@json_option
def change(user: str, team: str | None, nowhere: bool, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Let a user belong to a team, or to none.

    The team's quota binds the user's jobs beside the user's own. A user belongs to
    one team at most.

    \b
    JSON: {name, role, active, team, held: {gpus, jobs}}
    """
    if (team is None) != nowhere:
        raise click.UsageError("name one team, or give --none")
    with open_console_as(PeopleConsole) as console:
        shown = console.change_user(user, "team", team)
        members = [one.name for one in console.users().items if one.team == team] if team and not as_json else []
    if as_json:
        print_json(shown.model_dump(mode="json"))
    elif team is None:
        click.echo(f"user {user} is in no team")
    else:
        click.echo(f"team {team} has {count_of(len(members), 'member')}: {', '.join(sorted(members))}")


def _to_json(name: str, members: list[UserView]) -> dict[str, object]:
    held = {"gpus": sum(one.held.gpus for one in members), "jobs": sum(one.held.jobs for one in members)}
    return {"name": name, "members": sorted(one.name for one in members), "held": held}
