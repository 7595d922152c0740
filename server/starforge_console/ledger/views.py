"""What pages and API read: jobs, their events and their attempts, as they stand in the ledger."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, Select, func, select

from starforge.contract.states import JobState
from starforge_console.domain.retention import Kind
from starforge_console.ledger.kept_tables import removals
from starforge_console.ledger.missing import refuse_missing_job
from starforge_console.ledger.notes import read_note
from starforge_console.ledger.pools import count_nodes, read_pools
from starforge_console.ledger.secrets import SecretRecord, list_given
from starforge_console.ledger.tables import attempts, events, jobs, users


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """A job in narrow columns: everything but spec and admission record. `note` is `Said` where it was."""

    id: str
    name: str
    project: str
    user: str
    user_id: int
    state: str
    reason: str
    desired: str
    note: str
    fleet: str | None
    gpus: int
    attempt_id: str | None
    attempt_number: int
    submitted_at: float
    state_since: float
    started_at: float | None
    ended_at: float | None
    retry_at: float | None
    waiting: str | None
    """Why a queued job waits, as JSON, where the scheduler has told."""
    total_steps: int | None = None
    """How long the training will be, where it has said so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDocuments:
    """The job's long texts, as JSON, and the digest that its image was pinned to at admission."""

    spec: str
    spec_digest: str
    admission: str
    image_digest: str | None
    admission_said: str | None = None
    """Code and values of what the gates said, as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRecord:
    """One event of a job; `number` grows over the whole ledger. `note` is `Said` where it was."""

    number: int
    job_id: str
    at: float
    kind: str
    state: str | None
    reason: str | None
    attempt: int | None
    note: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """One attempt. `outputs` is what it left (None until its spool was read to the end).

    `secrets` are those of its owner that it was given.
    """

    id: str
    number: int
    fleet: str
    node: str
    dequeued_at: float
    started_at: float | None
    ended_at: float | None
    exit_code: int | None
    reason: str | None
    costs_retry: bool
    evidence: dict[str, Any]
    gpus: tuple[str, ...]
    series: tuple[str, ...]
    """Theirs, each once; none where it is not known of each."""
    image_id: str | None
    image_digest: str | None
    is_bare: bool | None
    capsule_digest: str | None
    runner_digest: str | None
    outputs: dict[str, Any] | None
    produced_bytes: int | None
    finalised_at: float | None
    log_removed_at: float | None = None
    """When retention removed the log; None while it is here."""
    secrets: tuple[SecretRecord, ...] = ()


def load_job(connection: Connection, job_id: str) -> JobRecord:
    """One job. Raises NotFound."""
    row = connection.execute(_job_query().where(jobs.c.id == job_id)).first()
    if row is None:
        raise refuse_missing_job(job_id)
    return _job(row)


def load_documents(connection: Connection, job_id: str) -> JobDocuments:
    """The job's spec and admission record. Raises NotFound."""
    row = connection.execute(
        select(jobs.c.spec, jobs.c.spec_digest, jobs.c.admission, jobs.c.image_digest, jobs.c.admission_said).where(
            jobs.c.id == job_id
        )
    ).first()
    if row is None:
        raise refuse_missing_job(job_id)
    return JobDocuments(**row._mapping)  # noqa: SLF001 - the documented way to a row's names


def load_specs(connection: Connection, ids: Sequence[str]) -> dict[str, str]:
    """The spec of each of these jobs, as JSON; those that do not exist are left out."""
    rows = connection.execute(select(jobs.c.id, jobs.c.spec).where(jobs.c.id.in_(ids))).all()
    return {row.id: row.spec for row in rows}


def load_digests(connection: Connection, ids: Sequence[str]) -> dict[str, str]:
    """The digest of the spec of each of these jobs; those that do not exist are left out."""
    rows = connection.execute(select(jobs.c.id, jobs.c.spec_digest).where(jobs.c.id.in_(ids))).all()
    return {row.id: row.spec_digest for row in rows}


def load_nodes(connection: Connection, job_id: str) -> int:
    """On how many nodes the job runs. Raises NotFound."""
    pools = connection.execute(select(jobs.c.pools).where(jobs.c.id == job_id)).scalar()
    if pools is None:
        raise refuse_missing_job(job_id)
    return count_nodes(read_pools(pools))


def list_events(connection: Connection, job_id: str, after: int = 0, limit: int = 500) -> Sequence[EventRecord]:
    """The job's events with a number above `after`, oldest first."""
    rows = connection.execute(
        select(events).where(events.c.job_id == job_id, events.c.number > after).order_by(events.c.number).limit(limit)
    ).all()
    return [EventRecord(**read_note(row._mapping)) for row in rows]  # noqa: SLF001 - `count` is a method of rows


def list_attempts(connection: Connection, job_id: str) -> Sequence[AttemptRecord]:
    """The job's attempts, first to newest."""
    of_log = (removals.c.attempt == attempts.c.id) & (removals.c.kind == Kind.LOG.value)
    rows = connection.execute(
        select(attempts, removals.c.at.label("log_removed_at"))
        .outerjoin(removals, of_log)
        .where(attempts.c.job_id == job_id)
        .order_by(attempts.c.number)
    ).all()
    given = list_given(connection, job_id)
    return [_attempt(row, given.get(row.id, ())) for row in rows]


def count_by_state(connection: Connection) -> dict[str, int]:
    """How many jobs are in each state that any job is in."""
    rows = connection.execute(select(jobs.c.state, func.count().label("jobs")).group_by(jobs.c.state)).all()
    return {row.state: row.jobs for row in rows}


def count_in_states(connection: Connection, states: Sequence[JobState]) -> dict[str, int]:
    """How many jobs are in each of these states, without a look at all the others."""
    some = jobs.c.state.in_([state.value for state in states])
    rows = connection.execute(select(jobs.c.state, func.count().label("jobs")).where(some).group_by(jobs.c.state)).all()
    return {state.value: 0 for state in states} | {row.state: row.jobs for row in rows}


def _job_query() -> Select[Any]:
    columns = [jobs.c[name] for name in JobRecord.__dataclass_fields__ if name != "user"]
    owner = users.c.name.label("user")
    return select(*columns, jobs.c.note_said, owner).join(users, users.c.id == jobs.c.user_id)


def _job(row: Row[Any]) -> JobRecord:
    return JobRecord(**read_note(row._mapping))  # noqa: SLF001 - the documented way to a row's names


def _attempt(row: Row[Any], given: Sequence[SecretRecord]) -> AttemptRecord:
    return AttemptRecord(
        id=row.id,
        number=row.number,
        fleet=row.fleet,
        node=row.node,
        dequeued_at=row.dequeued_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
        exit_code=row.exit_code,
        reason=row.reason,
        costs_retry=row.costs_retry,
        evidence=json.loads(row.evidence) if row.evidence else {},
        gpus=tuple(json.loads(row.gpus)),
        series=tuple((row.series or "").split()),
        image_id=row.image_id,
        image_digest=row.image_digest,
        is_bare=row.is_bare,
        capsule_digest=row.capsule_digest,
        runner_digest=row.runner_digest,
        outputs=json.loads(row.outputs) if row.outputs else None,
        produced_bytes=row.produced_bytes,
        finalised_at=row.finalised_at,
        log_removed_at=row.log_removed_at,
        secrets=tuple(given),
    )
