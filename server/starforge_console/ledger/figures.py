"""What the figures of the console are told of the ledger: jobs that left the queue, and attempts that ended."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, func, select

from starforge.contract.states import ENDED, JobState, Reason
from starforge_console.ledger.tables import events

AT_ONCE: Final = 2000
_OVER: Final = frozenset(state.value for state in ENDED)


@dataclass(frozen=True, slots=True)
class Turn:
    """A change of a job's state. `waited_s` is set for one that left the queue, `ended` for an attempt that ended."""

    number: int
    waited_s: float | None
    ended: str | None


def find_place(connection: Connection, before: float) -> int:
    """The number of the last event before a moment."""
    return connection.execute(select(func.max(events.c.number)).where(events.c.at < before)).scalar_one() or 0


def list_turns(connection: Connection, after: int) -> Sequence[Turn]:
    """The changes after event number `after`, as many as are read at once, in order."""
    earlier = events.alias()
    queued_at = (
        select(func.max(earlier.c.at))
        .where(
            earlier.c.job_id == events.c.job_id,
            earlier.c.number < events.c.number,
            earlier.c.state == JobState.QUEUED.value,
        )
        .scalar_subquery()
    )
    columns = (
        events.c.number,
        events.c.at,
        events.c.state,
        events.c.reason,
        events.c.attempt,
        queued_at.label("since"),
    )
    rows = connection.execute(
        select(*columns)
        .where(events.c.number > after, events.c.kind == "state")
        .order_by(events.c.number)
        .limit(AT_ONCE)
    ).all()
    return [
        Turn(
            number=row.number,
            waited_s=row.at - row.since if row.reason == Reason.DEQUEUED.value and row.since is not None else None,
            ended=row.reason if row.state in _OVER and row.attempt is not None else None,
        )
        for row in rows
    ]
