"""Users and their tokens in the ledger; tokens are kept as hashes alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, insert, select, update

from starforge.errors import Conflict
from starforge.said.sentence import say
from starforge_console.domain.roles import may_administer, may_operate, narrow_scopes
from starforge_console.errors import Forbidden, TokenRefused
from starforge_console.ledger.tables import tokens, users

PERSONAL: Final = "personal"
"""The kind of the tokens that people and their programs hold."""

_OF_USER = (users.c.id, users.c.name, users.c.role, users.c.active)


@dataclass(frozen=True, slots=True)
class Bound:
    """What comes of a token lives until `until` (Unix seconds) at most, and ends with `token` where there is one."""

    until: float
    token: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Who a valid token belongs to, with the scopes that its user's role leaves it."""

    user_id: int
    user: str
    role: str
    active: bool
    scopes: frozenset[str]
    expires_at: float
    token_id: int | None = None
    bound: Bound | None = None
    """Of all that it makes; None: somebody vouched for the person, and nothing but the session came of that."""

    @property
    def operates(self) -> bool:
        """Whether the token looks after machines, queue and everybody's jobs."""
        return may_operate(self.role, self.scopes)

    @property
    def administers(self) -> bool:
        """Whether the token does everything."""
        return may_administer(self.role, self.scopes)


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who may sign in."""

    id: int
    name: str
    role: str
    active: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken:
    """A token to keep: `hash` is all that is stored of it."""

    user_id: int
    kind: str
    hash: str
    scopes: frozenset[str]
    label: str
    expires_at: float
    opened_by: int | None = None
    """The personal token that it came of, and is revoked with."""
    peer: str | None = None
    agent: str | None = None
    ends_at: float | None = None
    """A page session is not kept alive beyond that; None: its token bounds it."""


def add_user(connection: Connection, name: str, role: str, now: float) -> int:
    """A new active user's id. Raises Conflict when the name is taken."""
    if find_user(connection, name) is not None:
        raise Conflict(say("fault.user_there", name=repr(name)), next_step=say("fault.other_name_next"))
    result = connection.execute(insert(users).values(name=name, role=role, active=True, created_at=now))
    (user_id,) = result.inserted_primary_key or (None,)
    return int(user_id or 0)


def find_user(connection: Connection, name: str) -> int | None:
    """The id of the user of that name, if there is one."""
    return connection.execute(select(users.c.id).where(users.c.name == name)).scalar()


def load_user(connection: Connection, user_id: int) -> User:
    """The user with this id, which is known to be one's."""
    columns = (users.c.id, users.c.name, users.c.role, users.c.active)
    return User(*connection.execute(select(*columns).where(users.c.id == user_id)).one())


def list_users(connection: Connection) -> Sequence[User]:
    """All users, in the order in which they came."""
    columns = (users.c.id, users.c.name, users.c.role, users.c.active)
    return [User(*row) for row in connection.execute(select(*columns).order_by(users.c.id)).all()]


def add_token(connection: Connection, token: NewToken, now: float) -> int:
    """Keep a token's hash and give its number.

    Raises:
        Forbidden: its user is deactivated: whoever read otherwise read it before.
        TokenRefused: the token that it came of is revoked, likewise.

    """
    user = connection.execute(select(users.c.name, users.c.active).where(users.c.id == token.user_id)).one()
    if not user.active:
        raise Forbidden(say("form.deactivated", user=user.name), next_step=say("fault.ask_administrator"))
    if token.opened_by is not None:
        opener = select(tokens.c.id).where(tokens.c.id == token.opened_by, tokens.c.revoked_at.is_(None))
        if connection.execute(opener).first() is None:
            raise TokenRefused("the token is unknown, expired or revoked", next_step="sign in again")
    result = connection.execute(
        insert(tokens).values(
            user_id=token.user_id,
            kind=token.kind,
            hash=token.hash,
            scopes=" ".join(sorted(token.scopes)),
            label=token.label,
            created_at=now,
            expires_at=token.expires_at,
            opened_by=token.opened_by,
            peer=token.peer,
            agent=token.agent,
            used_at=now if token.peer is not None else None,
            ends_at=token.ends_at,
        )
    )
    (token_id,) = result.inserted_primary_key or (None,)
    return int(token_id or 0)


def find_account(connection: Connection, token_hash: str, kind: str, now: float) -> Account | None:
    """Whose token of this kind has the hash, if it is neither expired nor revoked."""
    opener = tokens.alias("opener")
    came_of = (opener.c.user_id.label("opener_user"), opener.c.expires_at.label("opener_until"))
    row = connection.execute(
        select(tokens.c.id.label("token_id"), tokens.c.scopes, tokens.c.expires_at, tokens.c.opened_by)
        .add_columns(*_OF_USER, *came_of)
        .join(users, users.c.id == tokens.c.user_id)
        .join(opener, opener.c.id == tokens.c.opened_by, isouter=True)
        .where(
            tokens.c.hash == token_hash,
            tokens.c.kind == kind,
            tokens.c.revoked_at.is_(None),
            tokens.c.expires_at > now,
        )
    ).first()
    if row is None:
        return None
    bound = None
    if row.opener_until is not None:
        # What a user made for somebody else is bounded as well, and ends with what that one does, not with theirs.
        bound = Bound(row.opener_until, row.opened_by if row.opener_user == row.id else None)
    elif kind == PERSONAL:
        bound = Bound(row.expires_at, row.token_id)
    return Account(
        user_id=row.id,
        user=row.name,
        role=row.role,
        active=row.active,
        scopes=narrow_scopes(row.scopes.split(), row.role),
        expires_at=row.expires_at,
        token_id=row.token_id,
        bound=bound,
    )


def spend_for_token(connection: Connection, token_hash: str, kind: str, token: NewToken, now: float) -> int | None:
    """End the token of this kind and keep `token` in its place; gives its number, None where that one had ended.

    Raises as `add_token` does.
    """
    if find_account(connection, token_hash, kind, now) is None:
        return None
    revoke_token(connection, token_hash, now)
    return add_token(connection, token, now)


def revoke_token(connection: Connection, token_hash: str, now: float) -> bool:
    """End a token at once; False when there was none that lived."""
    changed = connection.execute(
        update(tokens)
        .where(tokens.c.hash == token_hash, tokens.c.revoked_at.is_(None), tokens.c.expires_at > now)
        .values(revoked_at=now)
    ).rowcount
    return changed > 0
