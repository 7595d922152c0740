"""What `starforge-console user ls` and `user set` do and print."""

import time

from starforge.cli.output import note, print_json, print_table
from starforge_console.accounts.acts import build_active, build_role
from starforge_console.domain.roles import Role
from starforge_console.ledger.database import Database
from starforge_console.ledger.people import list_people


def show_users(ledger: Database, *, as_json: bool) -> None:
    """Print every user."""
    people = ledger.read_now(list_people)
    if as_json:
        items = [
            {
                "name": one.user.name,
                "role": one.user.role,
                "active": one.user.active,
                "team": one.team,
                "gpus": one.gpus,
                "jobs": one.jobs,
            }
            for one in people
        ]
        print_json({"items": items})
        return
    rows = [(one.user.name, one.user.role, one.team or "-", "yes" if one.user.active else "no") for one in people]
    print_table(("USER", "ROLE", "TEAM", "ACTIVE"), rows)


def change_user(ledger: Database, name: str, role: str | None, *, active: bool | None) -> None:
    """Change what is given, and say what the user is now. Raises NotFound, Conflict."""
    if role is not None:
        person = ledger.write_now(build_role(name, Role(role)))
        note(f"user {name} is {person.user.role}")
    if active is not None:
        ledger.write_now(build_active(name, time.time(), active=active))
        note(f"user {name} may sign in" if active else f"user {name} may not sign in, and has no token and no session")
