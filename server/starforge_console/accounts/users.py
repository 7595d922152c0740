"""Users as an administrator of the console's machine makes them; for commands, which may block."""

import re
from collections.abc import Sequence
from typing import Final

from starforge.contract.launch import Secret
from starforge.errors import InputError, NotFound
from starforge.said.sentence import say
from starforge.wording import describe_nearest
from starforge_console.accounts.tokens import Issued, make_personal_token, make_sign_in_code, parse_scopes
from starforge_console.ledger.accounts import User, add_token, add_user, list_users
from starforge_console.ledger.database import Database

ADMIN: Final = "admin"
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")

MADE_HERE: Final = say("token.made_here")
"""The label of a token that nobody named."""


def create_user(ledger: Database, name: str, role: str, now: float) -> User:
    """A new active user. Raises InputError for a name that cannot be one, Conflict when it is taken."""
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{name!r} cannot be the name of a user",
            why="a name is at most 63 lower-case letters, digits, dots, dashes and underscores",
            next_step="choose another one",
        )
    return User(ledger.write_now(lambda c: add_user(c, name, role, now)), name, role, active=True)


def find_first_admin(ledger: Database) -> User | None:
    """The administrator who was first, if there is one."""
    return next((user for user in ledger.read_now(list_users) if user.role == ADMIN and user.active), None)


def load_named(ledger: Database, name: str) -> User:
    """The user of that name. Raises NotFound with the nearest name."""
    users = ledger.read_now(list_users)
    for user in users:
        if user.name == name:
            return user
    raise NotFound(f"there is no user {name!r}", next_step=describe_nearest(name, [user.name for user in users]))


def issue_token(ledger: Database, user: User, scopes: Sequence[str], days: float, now: float) -> Secret:
    """A new personal token for `user`. Raises InputError for scopes beyond the user's role."""
    granted = parse_scopes(scopes, user.role)
    return _keep(ledger, make_personal_token(user.id, granted, MADE_HERE, now, days), now)


def issue_sign_in_code(ledger: Database, user: User, now: float) -> Secret:
    """A code for the sign-in page, good once within an hour."""
    return _keep(ledger, make_sign_in_code(user.id, now), now)


def _keep(ledger: Database, issued: Issued, now: float) -> Secret:
    ledger.write_now(lambda c: add_token(c, issued.kept, now))
    return issued.text
