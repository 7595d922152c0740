"""Use in the ledger: charged as attempts end, and the values that put the queue in order until the next look.

The scheduler and the pages sort by the same values, so that people see the order in which jobs are placed; they are
kept, so that a restart changes nothing, and they are looked at once a minute, for they change slowly.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, delete, insert, select, update

from starforge.contract.ids import AttemptId
from starforge_console.domain.fair_share import Held, Share, Use, add_span, build_shares
from starforge_console.domain.gpu_hours import DAY_S, Span
from starforge_console.ledger.holding import LIVING
from starforge_console.ledger.share_tables import gpu_spans, shares
from starforge_console.ledger.tables import attempts, jobs, users

ORDER_LASTS_S: Final = 60.0
"""How long the queue keeps to what was used at one moment."""


@dataclass(frozen=True, slots=True)
class ShareOrder:
    """What orders the queue: shares by user id, as they were at `at` (Unix seconds); None before the first look."""

    shares: Mapping[int, Share]
    at: float | None

    def is_due(self, now: float) -> bool:
        """Whether it is time to look again; a clock that was set back makes it so."""
        return self.at is None or not self.at <= now < self.at + ORDER_LASTS_S


def charge(connection: Connection, attempt: AttemptId, until: float) -> None:
    """Add what the attempt has held from its dequeue until `until` to its user's use; to be called once, at its end."""
    row = connection.execute(
        select(jobs.c.user_id, attempts.c.job_id, jobs.c.gpus, attempts.c.dequeued_at)
        .join(jobs, jobs.c.id == attempts.c.job_id)
        .where(attempts.c.id == attempt)
    ).one()
    if not row.gpus:
        return
    span = Span(row.user_id, row.job_id, row.gpus, row.dequeued_at, max(row.dequeued_at, until))
    _keep_span(connection, attempt, span)
    known = connection.execute(select(shares.c.gpu_s, shares.c.at).where(shares.c.user_id == row.user_id)).first()
    use = add_span(Use() if known is None else Use(*known), row.gpus, row.dequeued_at, until)
    values = {"gpu_s": use.gpu_s, "at": use.at}
    if known is None:
        values |= {"user_id": row.user_id, "team_order": 0.0, "user_order": 0.0, "ordered_at": 0.0}
        connection.execute(insert(shares), values)
    else:
        connection.execute(update(shares).where(shares.c.user_id == row.user_id).values(values))


def load_order(connection: Connection) -> ShareOrder:
    """The values that the queue is in order by."""
    columns = (shares.c.user_id, shares.c.team_order, shares.c.user_order, shares.c.ordered_at)
    rows = connection.execute(select(*columns)).all()
    return ShareOrder(
        {row.user_id: Share(row.team_order, row.user_order) for row in rows},
        max((row.ordered_at for row in rows), default=None),
    )


def refresh_order(connection: Connection, now: float) -> ShareOrder:
    """Put the queue in order by what has been used until `now`, of what still runs too."""
    used = {
        row.user_id: Use(row.gpu_s, row.at)
        for row in connection.execute(select(shares.c.user_id, shares.c.gpu_s, shares.c.at)).all()
    }
    teams = {row.id: row.team for row in connection.execute(select(users.c.id, users.c.team)).all()}
    found = build_shares(used, _list_held(connection), teams, now)
    new = [user for user in found if user not in used]
    if new:
        nothing = {"gpu_s": 0.0, "at": 0.0, "team_order": 0.0, "user_order": 0.0, "ordered_at": 0.0}
        connection.execute(insert(shares), [{"user_id": user, **nothing} for user in new])
    for user, share in found.items():
        values = {"team_order": share.team_gpu_s, "user_order": share.user_gpu_s, "ordered_at": now}
        connection.execute(update(shares).where(shares.c.user_id == user).values(values))
    return ShareOrder(found, now)


def _keep_span(connection: Connection, attempt: AttemptId, span: Span) -> None:
    """Keep when the attempt held its GPUs, and forget what the user held more than a day before its end."""
    end = span.since if span.until is None else span.until
    old = (gpu_spans.c.user_id == span.user_id) & (gpu_spans.c.until < end - DAY_S)
    connection.execute(delete(gpu_spans).where(old))
    values = {"user_id": span.user_id, "job_id": span.job, "gpus": span.gpus, "since": span.since, "until": end}
    connection.execute(insert(gpu_spans), {"attempt": attempt, **values})


def _list_held(connection: Connection) -> list[Held]:
    return [Held(user, gpus, since) for user, _, gpus, since in connection.execute(LIVING).all()]
