"""A real ledger in a temporary folder, and short ways to jobs in each state."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection

from server.tests.databases import open_database
from starforge.contract.canonical import digest_bytes
from starforge.contract.executor import Target
from starforge.contract.ids import JobId, new_attempt_id, new_job_id
from starforge.contract.launch import PoolRequest
from starforge.contract.states import DesiredState, Reason
from starforge_console.domain.job import JobInFlight, QueuedJob
from starforge_console.domain.reconcile import Move
from starforge_console.domain.wishes import Wish
from starforge_console.ledger.accounts import add_user, find_user
from starforge_console.ledger.apply import apply_move
from starforge_console.ledger.database import Database
from starforge_console.ledger.in_flight import list_in_flight
from starforge_console.ledger.jobs import NewJob, SubmitKey, admit
from starforge_console.ledger.moves import Guard
from starforge_console.ledger.queue import NewAttempt, dequeue, list_queued
from starforge_console.ledger.wishes import wish


def guard(now: float = 100.0, lease: str | None = "me", monotonic: float | None = None) -> Guard:
    return Guard(now=now, monotonic=now if monotonic is None else monotonic, lease=lease)


@contextmanager
def open_ledger(folder: Path) -> Iterator[Database]:
    ledger = open_database(folder, "ledger")
    try:
        yield ledger
    finally:
        ledger.close()


def submit(  # noqa: PLR0913 - what a test may want another way
    connection: Connection,
    key: SubmitKey | None = None,
    now: float = 1.0,
    retries: int = 0,
    *,
    fleet: str | None = None,
    nodes: int = 1,
    user: str = "ada",
    gpus: int = 1,
    priority: int = 0,
    max_runtime_s: float | None = None,
    series: str | None = None,
) -> JobId:
    user_id = find_user(connection, user) or add_user(connection, user, "member", now)
    job = NewJob(
        id=new_job_id(),
        user_id=user_id,
        name="iris",
        project="demo",
        spec="{}",
        spec_digest=digest_bytes(b"{}"),
        admission="{}",
        fleet=fleet,
        priority=priority,
        pools=(PoolRequest(name="main", nodes=nodes, gpus_per_node=gpus, series=series),),
        gpus=nodes * gpus,
        grace_s=30.0,
        max_runtime_s=max_runtime_s,
        retries=retries,
    )
    return admit(connection, job, key, now)


def queued(connection: Connection, job_id: JobId) -> QueuedJob:
    return next(job for job in list_queued(connection) if job.id == job_id)


def in_flight(connection: Connection, job_id: JobId) -> JobInFlight:
    return list_in_flight(connection, [job_id])[0]


def take(connection: Connection, job_id: JobId, lease: str = "me", now: float = 10.0) -> JobInFlight:
    """Dequeue the job and give it as in flight."""
    job = queued(connection, job_id)
    attempt = new_attempt_id(job_id, job.number)
    new = NewAttempt(
        id=attempt,
        number=job.number,
        target=Target(fleet="local", node="n1", name=f"sf-{attempt}"),
        token_hash=attempt,
        token_expires_at=now + 1e6,
        lease=lease,
        lease_until=now + 100.0,
    )
    if dequeue(connection, job, new, guard(now, lease)) is None:
        message = "somebody else took the job"
        raise AssertionError(message)
    return in_flight(connection, job_id)


def apply(connection: Connection, job_id: JobId, *reasons: Reason, now: float = 20.0) -> None:
    """Move a job in flight for these reasons."""
    if apply_move(connection, in_flight(connection, job_id), Move(reasons=reasons), guard(now)) is None:
        message = "the job had changed"
        raise AssertionError(message)


def wish_stop(connection: Connection, job_id: JobId, grace_s: float | None, at: Guard) -> bool:
    """A user's stop."""
    return wish(connection, job_id, Wish(desired=DesiredState.STOP, grace_s=grace_s), at)
