"""Jobs that hold a place: read for the loops, leased by them, annotated while they run."""

from collections.abc import Collection
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, select, update

from starforge.contract.executor import Target
from starforge.contract.ids import AttemptId, JobId
from starforge.contract.states import HOLDS_A_PLACE, DesiredState, JobState, Reason
from starforge_console.domain.job import AttemptState, JobInFlight
from starforge_console.ledger.moves import JobRef
from starforge_console.ledger.notes import write_note
from starforge_console.ledger.pools import read_pools
from starforge_console.ledger.tables import attempts, jobs

_HOLDING: Final = [state.value for state in HOLDS_A_PLACE]


def list_in_flight(connection: Connection, only: Collection[JobId] | None = None) -> list[JobInFlight]:
    """All jobs that hold a place (or those of `only` that do)."""
    query = _in_flight_query()
    if only is not None:
        query = query.where(jobs.c.id.in_(list(only)))
    return [_in_flight(row) for row in connection.execute(query).all()]


def extend_lease(connection: Connection, job: JobRef, lease: str, until: float, monotonic: float) -> bool:
    """Take or keep the job for one mover; False when another holds it or the job has changed."""
    free = (jobs.c.lease.is_(None)) | (jobs.c.lease == lease) | (jobs.c.lease_until < monotonic)
    return bool(
        connection.execute(
            update(jobs)
            .where(jobs.c.id == job.id, jobs.c.state == job.state.value, jobs.c.version == job.version, free)
            .values(lease=lease, lease_until=until)
        ).rowcount
    )


def void_leases(connection: Connection) -> None:
    """Forget every lease: their owners ended with the process that this one replaces."""
    connection.execute(update(jobs).where(jobs.c.lease.is_not(None)).values(lease=None, lease_until=None))


def note_stop_sent(connection: Connection, attempt: AttemptId, now: float) -> None:
    """Record that the backend was told to stop `attempt`; the first time counts."""
    connection.execute(
        update(attempts).where(attempts.c.id == attempt, attempts.c.stop_sent_at.is_(None)).values(stop_sent_at=now)
    )


def note_gone(
    connection: Connection, attempt: AttemptId, at: float | None, engine_started_at: float | None = None
) -> None:
    """Record that the backend says, since `at`, that it holds nothing of `attempt`; None takes that back."""
    connection.execute(
        update(attempts).where(attempts.c.id == attempt).values(gone_since=at, gone_engine_started_at=engine_started_at)
    )


def note_progress(connection: Connection, job: JobRef, note: str) -> bool:
    """Show `note` beside the state; changes nothing else, and nothing at all once the job has moved on."""
    return bool(
        connection.execute(
            update(jobs)
            .where(jobs.c.id == job.id, jobs.c.version == job.version, jobs.c.note != note)
            .values(write_note(note))
        ).rowcount
    )


def _in_flight_query() -> Select[Any]:
    of_attempt = (
        attempts.c.fleet.label("at_fleet"),
        attempts.c.node,
        attempts.c.target_name,
        attempts.c.dequeued_at,
        attempts.c.launched_at,
        attempts.c.started_at.label("attempt_started_at"),
        attempts.c.stop_sent_at,
        attempts.c.gone_since,
        attempts.c.gone_engine_started_at,
    )
    of_job = (
        jobs.c.id,
        jobs.c.state,
        jobs.c.reason,
        jobs.c.desired,
        jobs.c.version,
        jobs.c.attempt_id,
        jobs.c.attempt_number,
        jobs.c.grace_s,
        jobs.c.max_runtime_s,
        jobs.c.pools,
        jobs.c.stop_by,
        jobs.c.stop_grace_s,
        jobs.c.note,
        jobs.c.wished_for,
        jobs.c.goes_on,
    )
    return (
        select(*of_job, *of_attempt)
        .join(attempts, attempts.c.id == jobs.c.attempt_id)
        .where(jobs.c.state.in_(_HOLDING))
    )


def _in_flight(row: Row[Any]) -> JobInFlight:
    return JobInFlight(
        id=JobId(row.id),
        state=JobState(row.state),
        reason=Reason(row.reason),
        desired=DesiredState(row.desired),
        version=row.version,
        grace_s=row.grace_s,
        max_runtime_s=row.max_runtime_s,
        pools=read_pools(row.pools),
        stop_by=row.stop_by,
        stop_grace_s=row.stop_grace_s,
        note=row.note,
        wished_for=None if row.wished_for is None else Reason(row.wished_for),
        goes_on=row.goes_on,
        attempt=AttemptState(
            id=AttemptId(row.attempt_id),
            number=row.attempt_number,
            target=Target(fleet=row.at_fleet, node=row.node, name=row.target_name),
            dequeued_at=row.dequeued_at,
            launched_at=row.launched_at,
            started_at=row.attempt_started_at,
            stop_sent_at=row.stop_sent_at,
            gone_since=row.gone_since,
            gone_engine_started_at=row.gone_engine_started_at,
        ),
    )
