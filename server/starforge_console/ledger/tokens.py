"""Tokens as pages list and end them, and page sessions, which are tokens of their own kind."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection, select, update

from starforge.errors import NotFound
from starforge.said.sentence import say
from starforge_console.ledger.tables import tokens, users


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRecord:
    """What may be told of a token: nothing that it could be used or found by."""

    id: int
    user_id: int
    user: str
    kind: str
    scopes: tuple[str, ...]
    label: str
    created_at: float
    expires_at: float
    opened_by: int | None
    peer: str | None
    agent: str | None
    used_at: float | None


class TokenOwner(NamedTuple):
    """Whose token it is, and of which kind."""

    user_id: int
    user: str
    kind: str


def list_tokens(
    connection: Connection, kinds: Sequence[str], now: float, user_id: int | None = None
) -> list[TokenRecord]:
    """The tokens of these kinds that live, newest first; of one user where `user_id` is given."""
    query = (
        select(tokens, users.c.name.label("user"))
        .join(users, users.c.id == tokens.c.user_id)
        .where(tokens.c.kind.in_(kinds), tokens.c.revoked_at.is_(None), tokens.c.expires_at > now)
        .order_by(tokens.c.created_at.desc(), tokens.c.id.desc())
    )
    if user_id is not None:
        query = query.where(tokens.c.user_id == user_id)
    return [
        TokenRecord(
            id=row.id,
            user_id=row.user_id,
            user=row.user,
            kind=row.kind,
            scopes=tuple(row.scopes.split()),
            label=row.label,
            created_at=row.created_at,
            expires_at=row.expires_at,
            opened_by=row.opened_by,
            peer=row.peer,
            agent=row.agent,
            used_at=row.used_at,
        )
        for row in connection.execute(query).all()
    ]


def load_token_owner(connection: Connection, token_id: int) -> TokenOwner:
    """The user whose token this is. Raises NotFound."""
    query = select(tokens.c.user_id, users.c.name, tokens.c.kind).join(users, users.c.id == tokens.c.user_id)
    row = connection.execute(query.where(tokens.c.id == token_id)).first()
    if row is None:
        raise NotFound(say("form.no_token", token=token_id), next_step=say("form.no_token_next"))
    return TokenOwner(*row)


def revoke_tree(connection: Connection, token_id: int, now: float, spared: Collection[int] = ()) -> list[str]:
    """End a token and all that came of it but the `spared`, at once; gives the hashes that are refused from now on.

    What came of a spared one lives on, too.
    """
    tree = select(tokens.c.id).where(tokens.c.id == token_id).cte("tree", recursive=True)
    came = select(tokens.c.id).join(tree, tokens.c.opened_by == tree.c.id)
    tree = tree.union(came.where(tokens.c.id.not_in(list(spared))))
    lives, wanted = tokens.c.revoked_at.is_(None), tokens.c.id.in_(select(tree.c.id))
    hashes = list(connection.execute(select(tokens.c.hash).where(wanted, lives)).scalars())
    connection.execute(update(tokens).where(wanted, lives).values(revoked_at=now))
    return hashes


def extend_session(connection: Connection, session_hash: str, now: float, expires_at: float) -> None:
    """Let a session that is used live until `expires_at`, but not for longer than its own end and its token's."""
    opener = select(tokens.c.opened_by).where(tokens.c.hash == session_hash).scalar_subquery()
    latest = connection.execute(select(tokens.c.expires_at).where(tokens.c.id == opener)).scalar()
    ends_at = connection.execute(select(tokens.c.ends_at).where(tokens.c.hash == session_hash)).scalar()
    expires_at = min([expires_at, *(float(one) for one in (latest, ends_at) if one is not None)])
    connection.execute(
        update(tokens)
        .where(tokens.c.hash == session_hash, tokens.c.revoked_at.is_(None))
        .values(expires_at=expires_at, used_at=now)
    )
