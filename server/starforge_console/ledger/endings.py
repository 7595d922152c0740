"""Attempts that ended: what is still to be read from their spool, and what is still to be removed."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select, update

from starforge.contract.ids import AttemptId, JobId
from starforge.contract.states import HOLDS_A_PLACE, Reason
from starforge_console.ledger.pools import count_nodes, read_pools
from starforge_console.ledger.secrets import forget_given
from starforge_console.ledger.tables import attempts, jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedAttempt:
    """An attempt that is over, as the finaliser and the cleanup see it."""

    id: AttemptId
    job: JobId
    number: int
    fleet: str
    ended_at: float
    finalised_at: float | None
    nodes: int = 1


def list_unclean(connection: Connection) -> Sequence[EndedAttempt]:
    """Attempts that ended and are not cleaned up; one that a job in flight still names is not among them."""
    holding = [state.value for state in HOLDS_A_PLACE]
    rows = connection.execute(
        select(attempts, jobs.c.pools)
        .join(jobs, jobs.c.id == attempts.c.job_id)
        .where(
            attempts.c.cleaned_at.is_(None),
            attempts.c.ended_at.is_not(None),
            ~((jobs.c.attempt_id == attempts.c.id) & jobs.c.state.in_(holding)),
        )
        .order_by(attempts.c.ended_at)
    ).all()
    return [
        EndedAttempt(
            id=AttemptId(row.id),
            job=JobId(row.job_id),
            number=row.number,
            fleet=row.fleet,
            ended_at=row.ended_at,
            finalised_at=row.finalised_at,
            nodes=count_nodes(read_pools(row.pools)),
        )
        for row in rows
    ]


def note_finalised(
    connection: Connection, attempt: AttemptId, now: float, outputs: dict[str, Any], produced_bytes: int | None
) -> None:
    """Record that everything the attempt spooled has been read."""
    connection.execute(
        update(attempts)
        .where(attempts.c.id == attempt)
        .values(finalised_at=now, outputs=json.dumps(outputs), produced_bytes=produced_bytes)
    )


def note_cleaned(connection: Connection, attempt: AttemptId, now: float) -> None:
    """Record that nothing of the attempt is left at its backend, that its token is over, and forget its secrets."""
    forget_given(connection, attempt)
    connection.execute(update(attempts).where(attempts.c.id == attempt).values(cleaned_at=now, token_expires_at=now))


def hurry_cleanup(connection: Connection, job: JobId) -> int:
    """Keep the job's ended containers no longer than their spool is unread; gives how many attempts are not clean."""
    mine = (attempts.c.job_id == job) & attempts.c.cleaned_at.is_(None)
    connection.execute(update(attempts).where(mine, attempts.c.finalised_at.is_not(None)).values(finalised_at=0.0))
    return len(list_unclean_of(connection, job))


def list_lost_attempts(connection: Connection, job: JobId) -> tuple[int, ...]:
    """The numbers of the job's attempts that were lost with their machine."""
    lost = (attempts.c.job_id == job) & (attempts.c.reason == Reason.NODE_LOST.value)
    return tuple(connection.execute(select(attempts.c.number).where(lost)).scalars().all())


def list_unclean_of(connection: Connection, job: JobId) -> Sequence[AttemptId]:
    """The job's attempts that are not cleaned up."""
    rows = connection.execute(
        select(attempts.c.id).where(attempts.c.job_id == job, attempts.c.cleaned_at.is_(None))
    ).all()
    return [AttemptId(row.id) for row in rows]


def end_token(connection: Connection, attempt: AttemptId, at: float) -> None:
    """Let the attempt's token run out at `at` (Unix seconds)."""
    connection.execute(
        update(attempts).where(attempts.c.id == attempt, attempts.c.token_expires_at > at).values(token_expires_at=at)
    )


def list_known(connection: Connection) -> set[AttemptId]:
    """Every attempt that the ledger holds and has not cleaned up: what a sweep must leave alone."""
    rows = connection.execute(select(attempts.c.id).where(attempts.c.cleaned_at.is_(None))).all()
    return {AttemptId(row.id) for row in rows}
