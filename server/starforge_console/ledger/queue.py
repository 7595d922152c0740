"""The queue in the ledger: what waits, how a job leaves it with an attempt, and when a failed one comes back."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from sqlalchemy import Connection, bindparam, func, insert, select, update

from starforge.contract.executor import Target
from starforge.contract.ids import AttemptId, JobId
from starforge.contract.states import JobState, Reason
from starforge.said.sentence import write_said
from starforge_console.domain.job import QueuedJob
from starforge_console.domain.reservation import bound_place
from starforge_console.domain.retry import BY_ITS_MACHINE, RetryBudget, is_due
from starforge_console.domain.waiting import WaitReason, describe_waiting
from starforge_console.ledger.fleets import is_deleted
from starforge_console.ledger.inputs import read_inputs
from starforge_console.ledger.maintenance import find_maintenance
from starforge_console.ledger.moves import Change, Guard, JobRef, move
from starforge_console.ledger.nodes import is_draining
from starforge_console.ledger.pools import read_pools
from starforge_console.ledger.restored import has_newer
from starforge_console.ledger.tables import attempt_outputs, attempts, jobs
from starforge_console.ledger.waits import write_waits

# Each changes together with the version, or is one by which `starforge_console.ledger.queue_memory` knows the change.
_NARROW: Final = select(
    *(jobs.c.id, jobs.c.version, jobs.c.fleet, jobs.c.priority, jobs.c.submitted_at, jobs.c.reason),
    *(jobs.c.state_since, jobs.c.attempt_number + 1, jobs.c.pools, jobs.c.note, jobs.c.user_id, jobs.c.inputs),
    *(jobs.c.ahead, jobs.c.passed, jobs.c.grace_s, jobs.c.max_runtime_s),
)
_REASONS: Final = {reason.value: reason for reason in Reason}
# A long queue has few inputs and limits: each is made once, and those that are equal are known to be by `is`.
_read_inputs: Final = lru_cache(maxsize=1024)(read_inputs)
_bound_place: Final = lru_cache(maxsize=1024)(bound_place)
_BY_MACHINE: Final = [reason.value for reason in BY_ITS_MACHINE]
_IDS_AT_ONCE: Final = 500
"""Databases bound how many values one statement may carry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAttempt:
    """The attempt that a dequeue begins."""

    id: AttemptId
    number: int
    target: Target
    token_hash: str
    token_expires_at: float
    lease: str
    lease_until: float


def list_queued(connection: Connection, only: Sequence[JobId] | None = None) -> list[QueuedJob]:
    """All queued jobs (or those of `only`, of which there are few), in no order and in narrow columns: never the spec.

    Equal pools are one object mostly, and equal inputs too.
    """
    query = _NARROW.where(jobs.c.state == JobState.QUEUED.value)
    if only is not None:
        query = query.where(jobs.c.id.in_(only))
    rows = connection.execute(query).all()
    return [
        QueuedJob(
            *(job, seen, fleet, priority, at, _REASONS[why], since, number, read_pools(asks)),
            *(note, user, _read_inputs(reads), *moved, grace, _bound_place(limit, grace)),
        )
        for job, seen, fleet, priority, at, why, since, number, asks, note, user, reads, *moved, grace, limit in rows
    ]


def list_faulty_nodes(connection: Connection, among: Sequence[JobId], since: float) -> dict[JobId, set[str]]:
    """The machines that ended attempts of these jobs after `since` (Unix seconds); a job without any is missing."""
    found: dict[JobId, set[str]] = {}
    for start in range(0, len(among), _IDS_AT_ONCE):
        rows = connection.execute(
            select(attempts.c.job_id, attempts.c.node).where(
                attempts.c.job_id.in_(among[start : start + _IDS_AT_ONCE]),
                attempts.c.reason.in_(_BY_MACHINE),
                attempts.c.ended_at > since,
            )
        ).all()
        for job, node in rows:
            found.setdefault(JobId(job), set()).add(str(node))
    return found


def note_waiting(connection: Connection, notes: Sequence[tuple[QueuedJob, Sequence[WaitReason]]]) -> None:
    """Show beside each queued job why it waits; jobs that have moved on are left as they are.

    Their versions stay: whoever remembers the queue is the only one to call this, and notes the same there.
    """
    # Most jobs of a long queue wait for the same: each list is written down once.
    texts = {id(why): _write_waiting(why) for _, why in notes}
    waiting = (
        update(jobs)
        .where(jobs.c.id == bindparam("of"), jobs.c.version == bindparam("seen"))
        .values(note=bindparam("why"), note_said=bindparam("said"), waiting=bindparam("reasons"))
    )
    connection.execute(waiting, [{"of": job.id, "seen": job.version, **texts[id(why)]} for job, why in notes])


def _write_waiting(why: Sequence[WaitReason]) -> dict[str, str | None]:
    text = describe_waiting(why)
    return {"why": str(text), "said": write_said(text), "reasons": write_waits(why)}


def dequeue(
    connection: Connection, job: QueuedJob, attempt: NewAttempt, guard: Guard, passed: Sequence[JobId] = ()
) -> JobRef | None:
    """QUEUED -> SUBMITTED with a new attempt and its target in the same transaction; `passed` were passed by it.

    None when somebody was faster, deleted the fleet, drained the machine, began a maintenance or restored the ledger.
    """
    target = attempt.target
    if is_deleted(connection, target.fleet) or is_draining(connection, target.node):
        return None
    if find_maintenance(connection) is not None or has_newer(connection, job.id):
        return None
    moved = move(
        connection,
        JobRef(id=job.id, state=JobState.QUEUED, version=job.version, number=attempt.number),
        [Reason.DEQUEUED],
        guard,
        Change(
            job={
                "attempt_id": attempt.id,
                "attempt_number": attempt.number,
                "lease": attempt.lease,
                "lease_until": attempt.lease_until,
            }
        ),
    )
    if moved is None:
        return None
    if passed:
        waiting = jobs.c.id.in_(passed) & (jobs.c.state == JobState.QUEUED.value)
        connection.execute(update(jobs).where(waiting).values(passed=jobs.c.passed + 1))
    connection.execute(
        insert(attempts),
        {
            "id": attempt.id,
            "job_id": job.id,
            "number": attempt.number,
            "fleet": target.fleet,
            "node": target.node,
            "target_name": target.name,
            "token_hash": attempt.token_hash,
            "token_expires_at": attempt.token_expires_at,
            "dequeued_at": guard.now,
            "costs_retry": False,
            "gpus": "[]",
        },
    )
    return JobRef(id=job.id, state=moved.state, version=moved.version, attempt=attempt.id, number=attempt.number)


def load_budget(connection: Connection, job_id: JobId) -> RetryBudget:
    """What the job may still spend on retries."""
    spent = (jobs.c.retries_left, jobs.c.free_retries, jobs.c.attempt_number)
    row = connection.execute(
        select(*spent, jobs.c.retries_given, jobs.c.restored_at_step).where(jobs.c.id == job_id)
    ).one()
    return RetryBudget(
        retries_left=row.retries_left,
        free_used=row.free_retries,
        attempts=row.attempt_number,
        given=row.retries_given,
        restored_at_step=row.restored_at_step,
    )


def find_newest_step(connection: Connection, attempt: AttemptId) -> int | None:
    """The highest step of a checkpoint that the attempt has told of as committed; None without any."""
    told = (attempt_outputs.c.attempt == attempt) & (attempt_outputs.c.kind == "checkpoint")
    newest: int | None = connection.execute(select(func.max(attempt_outputs.c.step)).where(told)).scalar_one()
    return newest


def list_due_retries(connection: Connection, now: float) -> tuple[Sequence[JobRef], float | None]:
    """Failed jobs whose time to run again has come, and when the next one's comes."""
    # The state is left to this process: with it SQLite walks through all failed jobs there ever were.
    found = connection.execute(
        select(jobs.c.id, jobs.c.version, jobs.c.attempt_number, jobs.c.retry_at, jobs.c.state)
        .where(jobs.c.retry_at.is_not(None))
        .order_by(jobs.c.retry_at)
    ).all()
    rows = [row for row in found if row.state == JobState.FAILED.value]
    due = [
        JobRef(id=JobId(row.id), state=JobState.FAILED, version=row.version, number=row.attempt_number)
        for row in rows
        if is_due(row.retry_at, now)
    ]
    later = [row.retry_at for row in rows if not is_due(row.retry_at, now)]
    return due, later[0] if later else None
