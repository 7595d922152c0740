"""Whom an identity provider's people are here, in the ledger."""

from dataclasses import dataclass

from sqlalchemy import Connection, insert, select

from starforge.errors import Conflict
from starforge.said.sentence import say
from starforge_console.domain.roles import Role
from starforge_console.errors import Forbidden
from starforge_console.ledger.accounts import User, add_user, find_user, load_user
from starforge_console.ledger.audit import Actor, write_act
from starforge_console.ledger.identity_table import identities
from starforge_console.ledger.people import change_role


@dataclass(frozen=True, slots=True)
class Identity:
    """Somebody at a provider. Issuer and subject never pass to anybody else; `name` is what they are called there."""

    issuer: str
    subject: str
    name: str


@dataclass(frozen=True, slots=True)
class Given:
    """What the groups of somebody give: a role, or none at all."""

    role: Role | None


@dataclass(frozen=True, slots=True)
class Welcome:
    """Who may sign in for the first time: a user of that name, a new user in that role.

    `given` is what groups say of this very person; None where roles are given here.
    """

    matches_names: bool
    new_role: Role | None
    given: Given | None = None


def find_identity(connection: Connection, issuer: str, subject: str) -> User | None:
    """The user that this is, if they have signed in before."""
    mine = (identities.c.issuer == issuer) & (identities.c.subject == subject)
    user_id = connection.execute(select(identities.c.user_id).where(mine)).scalar()
    return None if user_id is None else load_user(connection, int(user_id))


def sign_in_identity(connection: Connection, identity: Identity, welcome: Welcome, actor: Actor) -> User | None:
    """The user that this is; one who comes for the first time is matched by name or added, as `welcome` says.

    Where groups give roles the user has theirs from now on. Whom they give none gets None, and reads at the most with
    tokens of before. The last administrator stays one: somebody has to be able to mend the settings.

    The audit log tells of everything. Raises Forbidden where nobody may be added, or the name is somebody else's.
    """
    known = find_identity(connection, identity.issuer, identity.subject)
    if known is None and welcome.given is not None and welcome.given.role is None:
        return None
    user = known or _welcome(connection, identity, welcome, actor)
    if welcome.given is None:
        return user
    _give_role(connection, user, welcome.given.role or Role.VIEWER, actor)
    return None if welcome.given.role is None else load_user(connection, user.id)


def _welcome(connection: Connection, identity: Identity, welcome: Welcome, actor: Actor) -> User:
    """Somebody who comes for the first time."""
    user_id = find_user(connection, identity.name)
    if user_id is None:
        user_id = _add(connection, identity, welcome, actor)
    elif not welcome.matches_names or _is_linked(connection, user_id):
        raise Forbidden(
            say("fault.name_taken", name=repr(identity.name)),
            why=say("fault.name_taken_why"),
            next_step=say("fault.ask_administrator"),
        )
    values = {"issuer": identity.issuer, "subject": identity.subject, "user_id": user_id, "linked_at": actor.at}
    connection.execute(insert(identities).values(**values))
    told = say("did.identity_linked", user=identity.name, subject=identity.subject, issuer=identity.issuer)
    write_act(connection, actor, told)
    return load_user(connection, user_id)


def _add(connection: Connection, identity: Identity, welcome: Welcome, actor: Actor) -> int:
    role = welcome.new_role if welcome.given is None else welcome.given.role
    if role is None:
        raise Forbidden(
            say("fault.not_added", name=repr(identity.name)),
            why=say("fault.not_added_why"),
            next_step=say("fault.ask_to_be_added"),
        )
    user_id = add_user(connection, identity.name, role.value, actor.at)
    write_act(connection, actor, say("did.user_added", user=identity.name, role=role.value))
    return user_id


def _give_role(connection: Connection, user: User, role: Role, actor: Actor) -> None:
    if user.role == role:
        return
    try:
        change_role(connection, user.name, role)
    except Conflict:
        return
    write_act(connection, actor, say("did.user_role_by_groups", user=user.name, before=user.role, role=role.value))


def _is_linked(connection: Connection, user_id: int) -> bool:
    return connection.execute(select(identities.c.issuer).where(identities.c.user_id == user_id)).first() is not None
