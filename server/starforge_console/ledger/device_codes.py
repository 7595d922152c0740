"""Sign-ins that a command began, in the ledger: kept as hashes, decided once, spent once."""

from collections import Counter
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, delete, insert, select, update

from starforge.errors import Busy
from starforge_console.domain.callers import find_source
from starforge_console.domain.roles import narrow_scopes
from starforge_console.ledger.accounts import Bound, NewToken, add_token
from starforge_console.ledger.device_tables import device_codes
from starforge_console.ledger.tables import users


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDeviceCode:
    """What is kept of a sign-in that begins: both codes as hashes, who asks and from where."""

    device_hash: str
    user_hash: str
    client: str
    peer: str
    expires_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRequest:
    """A sign-in that waits for somebody's decision."""

    client: str
    peer: str
    created_at: float
    expires_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceState:
    """What became of a sign-in; `user` is None until somebody approved it."""

    user_id: int | None
    user: str | None
    active: bool
    scopes: frozenset[str]
    days: int
    client: str
    denied: bool
    bound: Bound | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What whoever approves lets the command have."""

    scopes: frozenset[str]
    days: int
    bound: Bound | None


@dataclass(frozen=True, slots=True)
class Room:
    """How many sign-ins may wait at once, of one source (an address, of IPv6 a network) and in all."""

    of_source: int
    in_all: int


def add_device_code(connection: Connection, new: NewDeviceCode, now: float, room: Room) -> None:
    """Keep a sign-in that begins; what is over its time goes. Raises Busy where too many of its address wait.

    Where too many wait in all, the oldest goes of those that most are of: whoever fills the room makes room.
    """
    connection.execute(delete(device_codes).where(device_codes.c.expires_at <= now))
    waiting = connection.execute(
        select(device_codes.c.id, device_codes.c.peer).where(_waits(now)).order_by(device_codes.c.id)
    ).all()
    sources = [find_source(row.peer) for row in waiting]
    counts = Counter(sources)
    if counts[find_source(new.peer)] >= room.of_source:
        raise Busy(
            "too many sign-ins wait to be approved",
            retry_after_s=30.0,
            next_step="repeat in a while, or sign in with a token: sf login --token",
        )
    if len(waiting) >= room.in_all:
        most = max(counts.values())
        first = next(row.id for row, source in zip(waiting, sources, strict=True) if counts[source] == most)
        connection.execute(delete(device_codes).where(device_codes.c.id == first))
    values = {
        "device_hash": new.device_hash,
        "user_hash": new.user_hash,
        "client": new.client,
        "peer": new.peer,
        "created_at": now,
        "expires_at": new.expires_at,
    }
    connection.execute(insert(device_codes).values(**values))


def find_request(connection: Connection, user_hash: str, now: float) -> DeviceRequest | None:
    """The sign-in with this short code, if it still waits for a decision."""
    waits = (device_codes.c.user_hash == user_hash) & _waits(now)
    row = connection.execute(select(device_codes).where(waits)).first()
    if row is None:
        return None
    return DeviceRequest(client=row.client, peer=row.peer, created_at=row.created_at, expires_at=row.expires_at)


def decide(
    connection: Connection, user_hash: str, now: float, user_id: int, grant: Grant | None
) -> DeviceRequest | None:
    """Approve it with `grant`, or deny it without; None where nothing waits for that."""
    found = find_request(connection, user_hash, now)
    if found is None:
        return None
    values: dict[str, object] = {"user_id": user_id, "denied": True}
    if grant is not None:
        values = {"user_id": user_id, "scopes": " ".join(sorted(grant.scopes)), "days": grant.days}
        if grant.bound is not None:
            values |= {"opened_by": grant.bound.token, "ends_at": grant.bound.until}
    connection.execute(update(device_codes).where(device_codes.c.user_hash == user_hash, _waits(now)).values(**values))
    return found


def find_state(connection: Connection, device_hash: str, now: float) -> DeviceState | None:
    """What became of the sign-in that polls with this code; None where it is unknown, over or spent."""
    columns = (device_codes, users.c.name, users.c.role, users.c.active)
    row = connection.execute(
        select(*columns)
        .join(users, users.c.id == device_codes.c.user_id, isouter=True)
        .where(
            device_codes.c.device_hash == device_hash,
            device_codes.c.expires_at > now,
            device_codes.c.spent_at.is_(None),
        )
    ).first()
    if row is None:
        return None
    return DeviceState(
        user_id=row.user_id,
        user=row.name,
        active=bool(row.active),
        scopes=narrow_scopes((row.scopes or "").split(), row.role or ""),
        days=row.days or 0,
        client=row.client,
        denied=row.denied,
        bound=None if row.ends_at is None else Bound(row.ends_at, row.opened_by),
    )


def spend(connection: Connection, device_hash: str, token: NewToken, now: float) -> int | None:
    """Keep the token that the sign-in is answered with, and let it be answered with none again; None: it was before.

    Raises as `add_token` does.
    """
    mine = (device_codes.c.device_hash == device_hash) & device_codes.c.spent_at.is_(None)
    if not connection.execute(update(device_codes).where(mine).values(spent_at=now)).rowcount:
        return None
    return add_token(connection, token, now)


def deny_approved(connection: Connection, user_id: int) -> None:
    """Let no sign-in that the user has approved be answered with a token any more."""
    mine = (device_codes.c.user_id == user_id) & device_codes.c.spent_at.is_(None)
    connection.execute(update(device_codes).where(mine).values(denied=True))


def _waits(now: float) -> ColumnElement[bool]:
    return (device_codes.c.expires_at > now) & device_codes.c.user_id.is_(None) & device_codes.c.spent_at.is_(None)
