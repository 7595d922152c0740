"""How what a job reads is kept in its column, and who reads whose checkpoints."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, or_, select, update

from starforge.contract.ids import JobId
from starforge.contract.states import ENDED, JobState
from starforge.said.sentence import say
from starforge_console.domain.inputs import (
    CheckpointInput,
    HubInput,
    HubRef,
    JobInput,
    JobInputs,
    PathInput,
)
from starforge_console.ledger.moves import note_timeline
from starforge_console.ledger.tables import jobs

_ENDED = [state.value for state in ENDED]


def write_inputs(inputs: JobInputs) -> str | None:
    """The column's text; None where the job reads nothing beside its workspace."""
    return json.dumps({member: _encode(one) for member, one in inputs.items()}) if inputs else None


def read_inputs(text: str | None) -> JobInputs:
    """The inputs of a column's text."""
    return {member: _decode(row) for member, row in json.loads(text).items()} if text else {}


def load_inputs(connection: Connection, job_id: str) -> JobInputs:
    """What the job reads; nothing for a job that is not there."""
    return read_inputs(connection.execute(select(jobs.c.inputs).where(jobs.c.id == job_id)).scalar())


def list_wanted(connection: Connection) -> Mapping[JobId, JobInputs]:
    """What jobs that may still start read: those of the queue, those that are paused or go on by themselves."""
    may_start = or_(
        jobs.c.state.in_([JobState.QUEUED.value, JobState.PAUSED.value]),
        jobs.c.state.in_([JobState.FAILED.value, JobState.STOPPED.value]) & jobs.c.retry_at.is_not(None),
    )
    rows = connection.execute(
        select(jobs.c.id, jobs.c.inputs).where(jobs.c.inputs.is_not(None), may_start).order_by(jobs.c.submitted_at)
    ).all()
    return {JobId(row.id): read_inputs(row.inputs) for row in rows}


def list_reading(connection: Connection, resumable_since: float) -> Sequence[JobInputs]:
    """What jobs read that have not ended for good, or ended without success since then, and what their parents read."""
    unfinished = or_(jobs.c.state.not_in(_ENDED), jobs.c.retry_at.is_not(None))
    failed = jobs.c.state.in_([JobState.FAILED.value, JobState.STOPPED.value]) & (jobs.c.ended_at >= resumable_since)
    parents = select(jobs.c.starts_from).where(unfinished, jobs.c.starts_from.is_not(None))
    wanted = or_(unfinished, failed, jobs.c.id.in_(parents))
    found = connection.execute(select(jobs.c.inputs).where(jobs.c.inputs.is_not(None), wanted))
    return [read_inputs(text) for text in found.scalars()]


def pin_commit(connection: Connection, job_ids: Sequence[JobId], ref: HubRef, commit: str, now: float) -> None:
    """Record which commit `ref` stands for, in those of these jobs that have not recorded one yet."""
    unknown = HubInput(ref, None)
    for job_id in job_ids:
        inputs = load_inputs(connection, job_id)
        if unknown not in inputs.values():
            continue
        pinned = {member: HubInput(ref, commit) if one == unknown else one for member, one in inputs.items()}
        # Another version: whoever remembers the job reads it again.
        values = {"inputs": write_inputs(pinned), "version": jobs.c.version + 1}
        connection.execute(update(jobs).where(jobs.c.id == job_id).values(values))
        note_timeline(connection, job_id, now, say("note.commit", input=str(ref), commit=commit))


def list_starting_from(connection: Connection, job_id: str) -> Sequence[JobId]:
    """The jobs that start from a checkpoint of this one and have not ended for good."""
    unfinished = or_(jobs.c.state.not_in(_ENDED), jobs.c.retry_at.is_not(None))
    rows = connection.execute(select(jobs.c.id).where(jobs.c.starts_from == job_id, unfinished).order_by(jobs.c.id))
    return [JobId(row.id) for row in rows.all()]


def _encode(one: JobInput) -> dict[str, Any]:
    match one:
        case HubInput(ref=ref, commit=commit):
            hub = {"hub": ref.kind, "repo": ref.repo, "revision": ref.revision}
            return {**hub, "commit": commit}
        case PathInput():
            return {"path": one.path, "root": one.root}
        case CheckpointInput():
            return {"job": one.job, "attempt": one.attempt, "step": one.step, "folder": one.folder}


def _decode(row: Mapping[str, Any]) -> JobInput:
    if "hub" in row:
        return HubInput(HubRef(row["hub"], row["repo"], row["revision"]), row["commit"])
    if "path" in row:
        return PathInput(path=row["path"], root=row["root"])
    return CheckpointInput(job=row["job"], attempt=row["attempt"], step=row["step"], folder=row["folder"])
