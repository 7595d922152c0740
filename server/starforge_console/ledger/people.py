"""Users with their teams and what their jobs hold now."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from starforge.errors import NotFound
from starforge.wording import describe_nearest
from starforge_console.ledger.accounts import User, list_users
from starforge_console.ledger.quotas import list_held, list_members, set_team


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
        raise NotFound(f"there is no user {name!r:.100}", next_step=describe_nearest(name, list(people)))
    return people[name]


def change_team(connection: Connection, name: str, team: str | None) -> Person:
    """Let the user of that name belong to `team`, or to none. Raises NotFound."""
    set_team(connection, load_person(connection, name).user.id, team)
    return load_person(connection, name)
