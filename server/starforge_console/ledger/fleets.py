"""Fleets and single facts of the install, in the ledger."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, insert, select

from starforge.contract.launch import Network
from starforge.errors import Conflict
from starforge_console.ledger.tables import facts, fleets


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Where jobs may be placed. `user` is `uid:gid`, `image` for the image's own, None for the console's default."""

    name: str
    kind: str
    network: Network
    user: str | None


def list_fleets(connection: Connection) -> Sequence[Fleet]:
    """All fleets, by name."""
    rows = connection.execute(select(fleets).order_by(fleets.c.name)).all()
    return [Fleet(name=row.name, kind=row.kind, network=Network(row.network), user=row.user) for row in rows]


def add_fleet(connection: Connection, fleet: Fleet, now: float) -> None:
    """Keep a new fleet. Raises Conflict when the name is taken."""
    if connection.execute(select(fleets.c.name).where(fleets.c.name == fleet.name)).first() is not None:
        raise Conflict(f"there is a fleet {fleet.name!r} already", next_step="choose another name")
    connection.execute(
        insert(fleets).values(
            name=fleet.name, kind=fleet.kind, network=fleet.network.value, user=fleet.user, created_at=now
        )
    )


def find_fact(connection: Connection, name: str) -> str | None:
    """A fact of this install, if it is known."""
    return connection.execute(select(facts.c.value).where(facts.c.name == name)).scalar()


def add_fact(connection: Connection, name: str, value: str) -> str:
    """Keep a fact unless one of that name stands; gives the one that stands."""
    known = find_fact(connection, name)
    if known is not None:
        return known
    connection.execute(insert(facts).values(name=name, value=value))
    return value
