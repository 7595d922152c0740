"""Users with their teams and what their jobs hold now."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, select, update

from starforge.errors import Conflict, NotFound
from starforge.said.sentence import say
from starforge_console.domain.nearest import say_nearest
from starforge_console.domain.roles import Role
from starforge_console.ledger.accounts import User, list_users
from starforge_console.ledger.device_codes import deny_approved
from starforge_console.ledger.quotas import list_held, list_members, set_team
from starforge_console.ledger.tables import tokens, users


@dataclass(frozen=True, slots=True)
class Person:
    """A user, and what their jobs hold now."""

    user: User
    team: str | None
    gpus: int
    jobs: int


def list_people(connection: Connection) -> Sequence[Person]:
    """Every user, in the order in which they came."""
    members, held = list_members(connection), list_held(connection)
    people = []
    for user in list_users(connection):
        own = [gpus for user_id, _, gpus in held if user_id == user.id]
        people.append(Person(user, members[user.id].team, sum(own), len(own)))
    return people


def load_person(connection: Connection, name: str) -> Person:
    """The user of that name. Raises NotFound with the nearest name."""
    people = {person.user.name: person for person in list_people(connection)}
    if name not in people:
        nearest = say_nearest(name, list(people)) if people else say("fault.no_user_next")
        raise NotFound(say("fault.no_user", name=f"{name!r:.100}"), next_step=nearest)
    return people[name]


def change_team(connection: Connection, name: str, team: str | None) -> Person:
    """Let the user of that name belong to `team`, or to none. Raises NotFound."""
    set_team(connection, load_person(connection, name).user.id, team)
    return load_person(connection, name)


def change_role(connection: Connection, name: str, role: Role) -> tuple[Person, str]:
    """Give the user of that name this role; gives the user and the role before.

    Raises:
        NotFound: there is no such user.
        Conflict: nobody would be left who administers the console.

    """
    before = load_person(connection, name).user
    if role is not Role.ADMIN:
        _require_another(connection, before)
    connection.execute(update(users).where(users.c.id == before.id).values(role=role.value))
    return load_person(connection, name), before.role


def change_active(connection: Connection, name: str, now: float, *, active: bool) -> tuple[Person, bool]:
    """Let the user of that name sign in, or not any more; gives the user and whether that was otherwise before.

    Whoever may not has no token, session or approved sign-in left, so that none of them comes back with their user.

    Raises:
        NotFound: there is no such user.
        Conflict: nobody would be left who administers the console.

    """
    before = load_person(connection, name).user
    if not active:
        _require_another(connection, before)
        lives = (tokens.c.user_id == before.id) & tokens.c.revoked_at.is_(None)
        connection.execute(update(tokens).where(lives).values(revoked_at=now))
        deny_approved(connection, before.id)
    connection.execute(update(users).where(users.c.id == before.id).values(active=active))
    return load_person(connection, name), before.active is not active


def _require_another(connection: Connection, user: User) -> None:
    """Raises Conflict where nobody but `user` administers the console."""
    administers = (users.c.role == Role.ADMIN.value) & users.c.active
    others = connection.execute(select(users.c.id).where(administers, users.c.id != user.id)).first()
    if others is None and user.role == Role.ADMIN and user.active:
        raise Conflict(
            say("fault.last_admin", name=user.name),
            why=say("fault.last_admin_why"),
            next_step=say("fault.last_admin_next"),
        )
