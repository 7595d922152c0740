"""Join tokens in the ledger: each lets so many machines join one fleet, for a while; kept as hashes alone."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, insert, select, update

from starforge.errors import NotFound, Refused
from starforge_console.ledger.tables import join_tokens

_ANOTHER = "ask an administrator for a new line on the fleet's page, or run 'sf fleet token {fleet}'"


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinToken:
    """What may be told of a join token."""

    id: int
    fleet: str
    uses_left: int
    created_by: str
    created_at: float
    expires_at: float
    revoked_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJoinToken:
    """A join token to keep: `hash` is all that is stored of its text."""

    hash: str
    fleet: str
    uses: int
    created_by: str
    expires_at: float


def add_join_token(connection: Connection, token: NewJoinToken, now: float) -> JoinToken:
    """Keep a new token."""
    result = connection.execute(
        insert(join_tokens).values(
            hash=token.hash,
            fleet=token.fleet,
            uses_left=token.uses,
            created_by=token.created_by,
            created_at=now,
            expires_at=token.expires_at,
        )
    )
    (token_id,) = result.inserted_primary_key or (None,)
    return _load(connection, int(token_id or 0))


def list_join_tokens(connection: Connection, fleet: str, now: float) -> Sequence[JoinToken]:
    """The tokens of the fleet that still let somebody in, newest first."""
    rows = connection.execute(
        select(join_tokens)
        .where(
            join_tokens.c.fleet == fleet,
            join_tokens.c.revoked_at.is_(None),
            join_tokens.c.expires_at > now,
            join_tokens.c.uses_left > 0,
        )
        .order_by(join_tokens.c.id.desc())
    ).all()
    return [_token(row) for row in rows]


def check_join_token(connection: Connection, token_hash: str, fleet: str, now: float) -> int:
    """The number of the token, which lets a machine join `fleet` now.

    Raises:
        Refused: it is unknown, of another fleet, revoked, expired or used up; the message says which.

    """
    row = connection.execute(select(join_tokens).where(join_tokens.c.hash == token_hash)).first()
    another = _ANOTHER.format(fleet=fleet)
    if row is None:
        raise Refused("the join token is not known here", next_step=another)
    token = _token(row)
    if token.fleet != fleet:
        raise Refused(
            f"the join token is not for fleet {fleet!r}",
            why=f"it lets machines join fleet {token.fleet!r}",
            next_step=f"join that one, or {another}",
        )
    if token.revoked_at is not None:
        raise Refused("the join token was revoked", next_step=another)
    if token.expires_at <= now:
        raise Refused("the join token has expired", next_step=another)
    if token.uses_left <= 0:
        raise Refused("the join token is used up", next_step=another)
    return token.id


def use_join_token(connection: Connection, token_hash: str, fleet: str, now: float) -> None:
    """Take one use of the token for a machine of `fleet`. Raises as `check_join_token`."""
    mine = join_tokens.c.id == check_join_token(connection, token_hash, fleet, now)
    connection.execute(update(join_tokens).where(mine).values(uses_left=join_tokens.c.uses_left - 1))


def revoke_join_token(connection: Connection, fleet: str, token_id: int, now: float) -> None:
    """Let nobody in any more with this token; fine when it is revoked already. Raises NotFound."""
    mine = (join_tokens.c.id == token_id) & (join_tokens.c.fleet == fleet)
    if connection.execute(select(join_tokens.c.id).where(mine)).first() is None:
        raise NotFound(f"fleet {fleet} has no join token {token_id}")
    connection.execute(update(join_tokens).where(mine, join_tokens.c.revoked_at.is_(None)).values(revoked_at=now))


def _load(connection: Connection, token_id: int) -> JoinToken:
    return _token(connection.execute(select(join_tokens).where(join_tokens.c.id == token_id)).one())


def _token(row: object) -> JoinToken:
    return JoinToken(**{name: getattr(row, name) for name in JoinToken.__dataclass_fields__})
