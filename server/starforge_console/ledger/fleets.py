"""Fleets and single facts of the install, in the ledger."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, bindparam, insert, select, update

from starforge.contract.launch import Network
from starforge.errors import Conflict, NotFound
from starforge.said.sentence import say
from starforge_console.ledger.tables import facts, fleets

DELETED: Final = "deleted"
"""In place of a kind: removed nodes and the history of jobs go on naming the fleet, and a new one may take the row."""
_LIST: Final = select(fleets).where(fleets.c.kind != DELETED).order_by(fleets.c.name)
_DELETED: Final = select(fleets.c.name).where(fleets.c.name == bindparam("of"), fleets.c.kind == DELETED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Where jobs may be placed. `user` is `uid:gid`, `image` for the image's own, None for the console's default.

    `requires_limit`: it takes only jobs with a time limit.
    """

    name: str
    kind: str
    network: Network
    user: str | None
    requires_limit: bool = False


def list_fleets(connection: Connection) -> Sequence[Fleet]:
    """All fleets that were not deleted, by name."""
    rows = connection.execute(_LIST).all()
    return [
        Fleet(
            name=row.name,
            kind=row.kind,
            network=Network(row.network),
            user=row.user,
            requires_limit=row.requires_limit,
        )
        for row in rows
    ]


def require_limit(connection: Connection, name: str, *, requires: bool) -> None:
    """Let the fleet take only jobs with a time limit from now on, or all again. Raises NotFound."""
    mine = (fleets.c.name == name) & (fleets.c.kind != DELETED)
    if not connection.execute(update(fleets).where(mine).values(requires_limit=requires)).rowcount:
        raise NotFound(say("form.no_fleet", name=f"{name!r:.80}"), next_step=say("form.fleets_next"))


def list_requiring(connection: Connection) -> frozenset[str]:
    """The fleets that take only jobs with a time limit."""
    strict = fleets.c.requires_limit & (fleets.c.kind != DELETED)
    return frozenset(connection.execute(select(fleets.c.name).where(strict)).scalars().all())


def add_fleet(connection: Connection, fleet: Fleet, now: float) -> None:
    """Keep a new fleet, also under the name of one that was deleted. Raises Conflict when the name is taken."""
    values = {
        "kind": fleet.kind,
        "network": fleet.network.value,
        "user": fleet.user,
        "requires_limit": fleet.requires_limit,
        "created_at": now,
    }
    mine = fleets.c.name == fleet.name
    if is_deleted(connection, fleet.name):
        connection.execute(update(fleets).where(mine).values(values))
        return
    if connection.execute(select(fleets.c.name).where(mine)).first() is not None:
        raise Conflict(say("fault.fleet_taken", name=repr(fleet.name)), next_step=say("fault.choose_another"))
    connection.execute(insert(fleets).values(name=fleet.name, **values))


def is_deleted(connection: Connection, name: str) -> bool:
    """Whether there was a fleet of that name and is none any more."""
    return connection.execute(_DELETED, {"of": name}).first() is not None


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
