"""The audit log: who did what, written in the very transaction of what was done, so that neither is without the other.

Whoever acts is known by the task that serves them (`act_as`); a loop of the console's own acts as the console itself.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias, TypeVar

from sqlalchemy import Connection, Select, insert, select

from starforge.said.sentence import Said, read_said, write_said
from starforge_console.ledger.audit_table import audit

PREFIX: Final = "did."
"""How the codes of acts begin."""

T = TypeVar("T")

Work: TypeAlias = Callable[[Connection], T]
"""What is done in one transaction, for whoever runs it."""


class Via(StrEnum):
    """How somebody reached the console."""

    PAGE = "page"
    API = "api"
    COMMAND = "command"
    """A command on the console's own machine; the user is that machine's."""
    NODE = "node"
    ITSELF = "itself"


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Who acts, since when (Unix seconds). `user` is empty where nobody is known, `peer` where nobody called."""

    user: str
    via: Via
    at: float
    peer: str = ""
    token: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One row. `what` is a sentence with its code and values."""

    number: int
    at: float
    user: str
    via: str
    peer: str
    token: int | None
    act: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Which rows are meant: those that fit all that is given. `text` stands in the English sentence; times are Unix."""

    user: str = ""
    act: str = ""
    text: str = ""
    since: float | None = None
    until: float | None = None
    before: int | None = None


_ACTING: ContextVar[Actor | None] = ContextVar("acting", default=None)


def act_as(actor: Actor) -> None:
    """From now on this task acts for `actor`."""
    _ACTING.set(actor)


@contextmanager
def acting_as(actor: Actor) -> Iterator[None]:
    """The same until the block ends."""
    kept = _ACTING.set(actor)
    try:
        yield
    finally:
        _ACTING.reset(kept)


def audited(work: Work[T], tell: Said | Callable[[T], Said | None], by: Actor | None = None) -> Work[T]:
    """`work`, and one row about it in the same transaction; in the name of `by`, else of whoever this task acts for.

    `tell` is what was done, or gives it from what `work` gave; None: nothing was, and there is no row.
    """
    actor = by or _ACTING.get() or Actor(user="", via=Via.ITSELF, at=time.time())

    def _work(connection: Connection) -> T:
        result = work(connection)
        what = tell if isinstance(tell, Said) else tell(result)
        if what is not None:
            write_act(connection, actor, what)
        return result

    return _work


def write_act(connection: Connection, actor: Actor, what: Said) -> None:
    """Add a row. `what` names an act of the catalog, and none of its values is a secret."""
    values = {"user": actor.user, "via": actor.via.value, "at": actor.at, "peer": actor.peer, "token": actor.token}
    told = {"act": what.code.removeprefix(PREFIX), "what": str(what), "said": write_said(what)}
    connection.execute(insert(audit).values(**values, **told))


def list_acts(connection: Connection, asked: Asked, limit: int) -> Sequence[Entry]:
    """At most `limit` rows that fit, the newest first."""
    query = _narrow(select(audit), asked).order_by(audit.c.number.desc()).limit(limit)
    return [
        Entry(
            number=row.number,
            at=row.at,
            user=row.user,
            via=row.via,
            peer=row.peer,
            token=row.token,
            act=row.act,
            what=read_said(row.what, row.said),
        )
        for row in connection.execute(query).all()
    ]


def _narrow(query: Select[tuple[object, ...]], asked: Asked) -> Select[tuple[object, ...]]:
    if asked.user:
        query = query.where(audit.c.user == asked.user)
    if asked.act:
        query = query.where(audit.c.act == asked.act)
    if asked.text:
        query = query.where(audit.c.what.icontains(asked.text, autoescape=True))
    if asked.since is not None:
        query = query.where(audit.c.at >= asked.since)
    if asked.until is not None:
        query = query.where(audit.c.at < asked.until)
    if asked.before is not None:
        query = query.where(audit.c.number < asked.before)
    return query
