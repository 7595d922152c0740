"""Jobs in the ledger: admitted once, wished to stop, deleted."""

import json
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from starforge.contract.ids import AttemptId, Digest, JobId
from starforge.contract.launch import PoolRequest
from starforge.contract.states import Reason, has_ended_for_good
from starforge.errors import Conflict
from starforge.said.sentence import say
from starforge_console.domain.inputs import START, CheckpointInput, JobInputs
from starforge_console.ledger.fleets import is_deleted
from starforge_console.ledger.inputs import list_starting_from, write_inputs
from starforge_console.ledger.kept_tables import diagnoses, idempotency, removals
from starforge_console.ledger.lineages import Lineage, keep_lineage
from starforge_console.ledger.missing import refuse_missing_job
from starforge_console.ledger.moves import enter
from starforge_console.ledger.pools import write_pools
from starforge_console.ledger.removals import is_checkpoint_removed
from starforge_console.ledger.stored import drop_stored
from starforge_console.ledger.sweep_tables import sweeps
from starforge_console.ledger.tables import (
    attempt_outputs,
    attempt_secrets,
    attempts,
    event_marks,
    events,
    jobs,
    lineages,
    users,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job that every gate has passed."""

    id: JobId
    user_id: int
    name: str
    project: str
    spec: str
    spec_digest: Digest
    admission: str
    admission_said: str | None = None
    fleet: str | None
    priority: int
    pools: tuple[PoolRequest, ...]
    gpus: int
    grace_s: float
    max_runtime_s: float | None
    retries: int
    inputs: JobInputs = field(default_factory=dict)
    image_digest: str | None = None
    lineage: Lineage = field(default_factory=Lineage)
    sweep: str | None = None
    sweep_place: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitKey:
    """The client's key of one submission, and the digest of what was sent under it."""

    user_id: int
    key: str
    body_digest: Digest


def admit(connection: Connection, job: NewJob, key: SubmitKey | None, now: float) -> JobId:
    """Keep `job` as QUEUED; under a key that was used before, give the job of that time.

    Raises:
        Conflict: the key was used for another body, or the fleet was deleted just now.

    """
    known = None if key is None else find_submission(connection, key)
    if known is not None:
        return known
    if job.fleet is not None and is_deleted(connection, job.fleet):
        raise Conflict(say("form.fleet_gone", name=repr(job.fleet)), next_step=say("form.name_another"))
    start = job.inputs.get(START)
    if isinstance(start, CheckpointInput) and not _exists(connection, start.job):
        raise Conflict(say("form.start_gone", job=start.job), next_step=say("form.start_gone_next"))
    if isinstance(start, CheckpointInput) and is_checkpoint_removed(connection, start):
        what = f"the checkpoint of step {start.step} of job {start.job} was removed meanwhile"
        raise Conflict(what, why="the console keeps only some of an ended job", next_step="start from another one")
    values: dict[str, Any] = {one.name: getattr(job, one.name) for one in fields(job)}
    values |= {"pools": write_pools(job.pools), "inputs": write_inputs(job.inputs)}
    values["starts_from"] = start.job if isinstance(start, CheckpointInput) else None
    values["workspace"] = json.loads(job.spec).get("spec", {}).get("workspace", {}).get("digest")
    values["retries_left"] = values["retries_given"] = values.pop("retries")
    lineage: Lineage = values.pop("lineage")
    told = say("note.rerun", job=lineage.rerun_of) if lineage.rerun_of else ""
    enter(connection, values, Reason.ADMITTED, now, told)
    keep_lineage(connection, job.id, lineage)
    if key is not None:
        connection.execute(insert(idempotency), {**asdict(key), "job_id": job.id, "at": now})
    return job.id


def find_submission(connection: Connection, key: SubmitKey) -> JobId | None:
    """The job that was submitted under `key`, if any.

    Raises:
        Conflict: the key was used for another body.

    """
    row = connection.execute(
        select(idempotency.c.body_digest, idempotency.c.job_id).where(
            idempotency.c.user_id == key.user_id, idempotency.c.key == key.key
        )
    ).first()
    if row is None:
        return None
    if row.body_digest != key.body_digest:
        raise refuse_used_key(key, f"job {row.job_id}")
    return JobId(row.job_id)


def refuse_used_key(key: SubmitKey, owner: str) -> Conflict:
    """The error to raise where `owner`, such as `job j234`, was made of another body under the same key."""
    return Conflict(
        say("form.key_used", key=repr(key.key)),
        why=say("form.key_used_why", owner=owner),
        next_step=say("form.key_used_next"),
    )


def load_spec(connection: Connection, job_id: JobId) -> str:
    """The spec of the job as JSON. Raises NotFound."""
    spec = connection.execute(select(jobs.c.spec).where(jobs.c.id == job_id)).scalar()
    if spec is None:
        raise refuse_missing_job(job_id)
    return str(spec)


def load_owner(connection: Connection, job_id: JobId) -> str:
    """The name of whoever submitted the job. Raises NotFound."""
    owner = select(users.c.name).join(jobs, jobs.c.user_id == users.c.id).where(jobs.c.id == job_id)
    name = connection.execute(owner).scalar()
    if name is None:
        raise refuse_missing_job(job_id)
    return str(name)


def find_workspace(connection: Connection, job_id: JobId) -> Digest | None:
    """The digest of the job's packed workspace; None for a job that is not there."""
    return connection.execute(select(jobs.c.workspace).where(jobs.c.id == job_id)).scalar()


def list_deletable(connection: Connection, job_id: JobId) -> list[AttemptId]:
    """The attempts of a job that may be deleted.

    Raises:
        NotFound: there is no such job.
        Conflict: it has not ended, will be retried, is not cleaned up yet, or another job starts from its checkpoints.

    """
    row = connection.execute(select(jobs.c.state, jobs.c.retry_at).where(jobs.c.id == job_id)).first()
    if row is None:
        raise refuse_missing_job(job_id)
    if not has_ended_for_good(row.state, row.retry_at):
        raise Conflict(
            say("fault.job_is", job=job_id, state=row.state),
            why=say("form.only_ended"),
            next_step=say("form.stop_first"),
        )
    children = list_starting_from(connection, job_id)
    if children:
        raise Conflict(
            say("form.job_kept", job=job_id),
            why=say("form.job_kept_start", jobs=", ".join(children)),
            next_step=say("form.job_kept_next"),
        )
    found = connection.execute(select(attempts.c.id, attempts.c.cleaned_at).where(attempts.c.job_id == job_id)).all()
    if any(attempt.cleaned_at is None for attempt in found):
        raise Conflict(say("form.job_cleaned", job=job_id), next_step=say("form.try_again"))
    return [AttemptId(attempt.id) for attempt in found]


def delete_job(connection: Connection, job_id: JobId) -> list[AttemptId]:
    """Remove an ended job's record, and a sweep's with its last job; gives its attempts. Raises as `list_deletable`."""
    found = list_deletable(connection, job_id)
    drop_stored(connection, job_id)
    for told in (diagnoses, removals, attempt_outputs, attempt_secrets, event_marks):
        connection.execute(delete(told).where(told.c.attempt.in_(found)))
    for table in (events, idempotency, attempts, lineages):
        connection.execute(delete(table).where(table.c.job_id == job_id))
    sweep = connection.execute(select(jobs.c.sweep).where(jobs.c.id == job_id)).scalar()
    connection.execute(delete(jobs).where(jobs.c.id == job_id))
    if sweep is not None:
        others = select(jobs.c.id).where(jobs.c.sweep == sweep).exists()
        connection.execute(delete(sweeps).where(sweeps.c.id == sweep, ~others))
    return found


def _exists(connection: Connection, job_id: str) -> bool:
    return connection.execute(select(jobs.c.id).where(jobs.c.id == job_id)).first() is not None
