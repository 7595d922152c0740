"""Jobs that hold a place: read for the loops, leased by them, annotated while they run."""

from collections.abc import Collection
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, bindparam, or_, select, update

from starforge.contract.executor import Target
from starforge.contract.ids import AttemptId, JobId
from starforge.contract.states import DesiredState, JobState, Reason
from starforge_console.domain.job import AttemptState, JobInFlight
from starforge_console.ledger.holding import HOLDING
from starforge_console.ledger.moves import JobRef
from starforge_console.ledger.notes import write_note
from starforge_console.ledger.pools import read_pools
from starforge_console.ledger.tables import attempts, jobs

_OF_JOB: Final = (
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
_OF_ATTEMPT: Final = (
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
# Statements are built once: each start reads and leases its job.
_IN_FLIGHT: Final[Select[Any]] = (
    select(*_OF_JOB, *_OF_ATTEMPT).join(attempts, attempts.c.id == jobs.c.attempt_id).where(jobs.c.state.in_(HOLDING))
)
_ONE_IN_FLIGHT: Final[Select[Any]] = _IN_FLIGHT.where(jobs.c.id == bindparam("of"))
_LEASE: Final = (
    update(jobs)
    .where(
        jobs.c.id == bindparam("of"),
        jobs.c.version == bindparam("seen"),
        or_(jobs.c.lease.is_(None), jobs.c.lease == bindparam("mover"), jobs.c.lease_until < bindparam("clock")),
    )
    .values(lease=bindparam("mover"), lease_until=bindparam("until"))
)


def list_in_flight(connection: Connection, only: Collection[JobId] | None = None) -> list[JobInFlight]:
    """All jobs that hold a place (or those of `only` that do)."""
    query = _IN_FLIGHT
    if only is not None:
        query = query.where(jobs.c.id.in_(list(only)))
    return [_in_flight(row) for row in connection.execute(query).all()]


def find_in_flight(connection: Connection, job_id: JobId) -> JobInFlight | None:
    """That job, if it holds a place."""
    row = connection.execute(_ONE_IN_FLIGHT, {"of": job_id}).first()
    return None if row is None else _in_flight(row)


def lease_submitted(
    connection: Connection, job_id: JobId, lease: str, until: float, monotonic: float
) -> JobInFlight | None:
    """The job with a lease for one mover; None where it is not SUBMITTED, or another holds it."""
    job = find_in_flight(connection, job_id)
    if job is None or job.state is not JobState.SUBMITTED:
        return None
    taken = {"of": job.id, "seen": job.version, "mover": lease, "until": until, "clock": monotonic}
    return job if connection.execute(_LEASE, taken).rowcount else None


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
