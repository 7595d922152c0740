"""Users as an administrator of the console's machine makes them; for commands, which may block."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from starforge.contract.launch import Secret
from starforge.errors import Conflict, InputError, NotFound
from starforge.said.sentence import Said, say
from starforge_console.accounts.tokens import MADE_HERE, make_personal_token, make_sign_in_code, parse_scopes
from starforge_console.domain.nearest import say_nearest
from starforge_console.domain.roles import Role
from starforge_console.ledger.accounts import User, add_token, add_user, list_users
from starforge_console.ledger.audit import audited
from starforge_console.ledger.database import Database
from starforge_console.ledger.people import Person, change_active, change_role, list_people

ADMIN: Final = "admin"
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")


def create_user(ledger: Database, name: str, role: str, now: float) -> User:
    """A new active user. Raises InputError for a name that cannot be one, Conflict when it is taken."""
    check_user_name(name)
    adding = audited(lambda c: add_user(c, name, role, now), say("did.user_added", user=name, role=role))
    return User(ledger.write_now(adding), name, role, active=True)


def set_role(ledger: Database, name: str, role: Role) -> Person:
    """Give the user this role. Raises NotFound, and Conflict for the last administrator."""
    return ledger.write_now(audited(lambda c: change_role(c, name, role), lambda done: tell_role(*done)))[0]


def set_active(ledger: Database, name: str, now: float, *, active: bool) -> Person:
    """Let the user sign in, or not any more. Raises NotFound, and Conflict for the last administrator."""
    changing = audited(lambda c: change_active(c, name, now, active=active), lambda done: tell_active(*done))
    return ledger.write_now(changing)[0]


def list_everybody(ledger: Database) -> Sequence[Person]:
    """Every user, in the order in which they came."""
    return ledger.read_now(list_people)


def check_user_name(name: str) -> None:
    """Raises InputError for what cannot be the name of a user."""
    if not _NAME.fullmatch(name):
        raise InputError(
            say("fault.no_user_name", name=f"{name!r:.100}"),
            why=say("fault.no_user_name_why"),
            next_step=say("fault.other_name_next"),
        )


def tell_role(person: Person, before: str) -> Said | None:
    """What the audit log says of a change of role; nothing where there was none."""
    user = person.user
    return None if before == user.role else say("did.user_role", user=user.name, before=before, role=user.role)


def tell_active(person: Person, changed: bool) -> Said | None:  # noqa: FBT001 - what the ledger's function gives
    """What the audit log says of who may sign in; nothing where nothing changed."""
    if not changed:
        return None
    name = person.user.name
    return say("did.user_activated", user=name) if person.user.active else say("did.user_deactivated", user=name)


def find_first_admin(ledger: Database) -> User | None:
    """The administrator who was first, if there is one."""
    return next((user for user in ledger.read_now(list_users) if user.role == ADMIN and user.active), None)


def load_named(ledger: Database, name: str) -> User:
    """The user of that name. Raises NotFound with the nearest name."""
    users = ledger.read_now(list_users)
    for user in users:
        if user.name == name:
            return user
    raise NotFound(say("fault.no_user", name=repr(name)), next_step=say_nearest(name, [user.name for user in users]))


def load_admin(ledger: Database, name: str) -> User:
    """The active administrator of that name. Raises NotFound, and Conflict for anybody else."""
    user = load_named(ledger, name)
    if user.role != ADMIN:
        raise Conflict(
            say("fault.other_role", name=name, role=user.role), next_step=say("fault.other_role_next", name=name)
        )
    if not user.active:
        raise Conflict(say("fault.inactive", name=name), next_step=say("fault.inactive_next"))
    return user


def issue_token(ledger: Database, user: User, scopes: Sequence[str], days: float, now: float) -> Secret:
    """A new personal token for `user`. Raises InputError for scopes beyond the user's role."""
    granted = parse_scopes(scopes, user.role)
    issued = make_personal_token(user.id, granted, MADE_HERE, now, days)
    adding = audited(
        lambda c: add_token(c, issued.kept, now), lambda token: tell_token(token, user.name, granted, issued.days)
    )
    ledger.write_now(adding)
    return issued.text


def issue_sign_in_code(ledger: Database, user: User, now: float) -> Secret:
    """A code for the sign-in page, good once within an hour."""
    issued = make_sign_in_code(user.id, now)
    ledger.write_now(audited(lambda c: add_token(c, issued.kept, now), say("did.link_made", user=user.name)))
    return issued.text


def tell_token(token: int, user: str, scopes: Iterable[str], days: float) -> Said:
    """What the audit log says of a new token."""
    return say("did.token_made", token=token, user=user, scopes=", ".join(sorted(scopes)), days=f"{round(days, 2):g}")
