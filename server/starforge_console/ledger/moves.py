"""How a job's state changes: `enter` writes its first one, and `move`, guarded, every other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Connection, bindparam, delete, insert, or_, select, update

from starforge.contract.ids import AttemptId, JobId
from starforge.contract.states import ENDED, DesiredState, JobState, Reason, advance
from starforge.errors import IllegalTransition
from starforge_console.ledger.notes import write_note
from starforge_console.ledger.shares import charge
from starforge_console.ledger.tables import attempts, events, jobs

_COALESCED: Final = frozenset({Reason.NO_CAPACITY, Reason.NODE_FAULT})
HISTORY_SHOWN: Final = 20

# What changes is given beside these statements, not built into them: a start is many, and building costs as much again.
_MOVE: Final = update(jobs).where(
    jobs.c.id == bindparam("of"),
    jobs.c.state == bindparam("was"),
    jobs.c.version == bindparam("seen"),
    or_(jobs.c.lease.is_(None), jobs.c.lease == bindparam("mover"), jobs.c.lease_until < bindparam("clock")),
)
_ENTER: Final = insert(jobs)
_TELL: Final = insert(events)
_CHANGE_LIVING: Final = update(attempts).where(attempts.c.id == bindparam("of"), attempts.c.ended_at.is_(None))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRef:
    """A job as it was read: a move applies only while the ledger still says the same."""

    id: JobId
    state: JobState
    version: int
    attempt: AttemptId | None = None
    number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What goes along with a move: a note for people, and further columns of the job and of its newest attempt.

    `held_until`: when an attempt that ends gave back what it held, where that was before now (Unix seconds).
    """

    note: str = ""
    job: Mapping[str, Any] = field(default_factory=dict)
    attempt: Mapping[str, Any] = field(default_factory=dict)
    held_until: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """Who moves: `lease` is the mover's own, `monotonic` decides whether another's has run out."""

    now: float
    monotonic: float
    lease: str | None = None


def enter(connection: Connection, values: Mapping[str, Any], reason: Reason, now: float, note: str = "") -> None:
    """Keep a new job, whose own columns are `values`, in the state that `reason` begins; `note` is for people."""
    state = advance(None, reason)
    connection.execute(
        _ENTER,
        {
            **values,
            "state": state.value,
            "reason": reason.value,
            "desired": DesiredState.RUN.value,
            "version": 1,
            **write_note(""),
            "attempt_number": 0,
            "free_retries": 0,
            "submitted_at": now,
            "state_since": now,
        },
    )
    event = _build_event(JobRef(id=values["id"], state=state, version=1), (state, reason), now)
    connection.execute(_TELL, event | write_note(note))


def move(
    connection: Connection, job: JobRef, reasons: Sequence[Reason], guard: Guard, change: Change | None = None
) -> JobRef | None:
    """Apply `reasons` in order, as one guarded UPDATE and one event each.

    Returns:
        The job as it is now, or None when somebody else was faster; then nothing was changed.

    Raises:
        IllegalTransition: the table has no such edge; the job's history is in the message.

    """
    change = change or Change()
    steps = _walk(connection, job, reasons)
    state, reason = steps[-1], reasons[-1]
    values = {
        "state": state.value,
        "reason": reason.value,
        "version": job.version + 1,
        "state_since": guard.now,
        **write_note(change.note),
        "waiting": None,
        "lease": None,
        "lease_until": None,
        **_times_of_job(steps, guard.now),
        **_wishes_of_job(state),
        **_place_of_job(steps),
        **change.job,
    }
    seen = {"of": job.id, "was": job.state.value, "seen": job.version}
    moved = connection.execute(_MOVE, {**values, **seen, "mover": guard.lease, "clock": guard.monotonic})
    if moved.rowcount == 0:
        return None
    attempt_values = {**_times_of_attempt(steps, reason, guard.now), **change.attempt}
    if attempt_values and job.attempt is not None:
        until = guard.now if change.held_until is None else min(guard.now, change.held_until)
        _change_living(connection, job.attempt, attempt_values, until)
    _write_events(connection, job, list(zip(steps, reasons, strict=True)), guard.now, change.note)
    return JobRef(id=job.id, state=state, version=job.version + 1, attempt=job.attempt, number=job.number)


def note_timeline(connection: Connection, job: JobId, now: float, note: str, attempt: int | None = None) -> None:
    """Add an entry to the job's timeline that changes no state."""
    values = {"job_id": job, "at": now, "kind": "timeline", "attempt": attempt, "count": 1}
    connection.execute(_TELL, values | write_note(note))


def history_of(connection: Connection, job: JobId) -> list[str]:
    """The job's latest state changes, oldest first, as short texts."""
    rows = connection.execute(
        select(events.c.state, events.c.reason)
        .where(events.c.job_id == job, events.c.kind == "state")
        .order_by(events.c.number.desc())
        .limit(HISTORY_SHOWN)
    ).all()
    return [f"{row.reason}={row.state}" for row in reversed(rows)]


def _change_living(connection: Connection, attempt: AttemptId, values: Mapping[str, Any], held_until: float) -> None:
    """Change the attempt, and charge what it held if it ends so.

    A job's newest attempt may be over already, as in a queue or a pause: how it ended stays as it was.
    """
    changed = connection.execute(_CHANGE_LIVING, {**values, "of": attempt}).rowcount
    if changed and "ended_at" in values:
        charge(connection, attempt, held_until)


def _walk(connection: Connection, job: JobRef, reasons: Sequence[Reason]) -> list[JobState]:
    steps: list[JobState] = []
    state = job.state
    for reason in reasons:
        try:
            state = advance(state, reason)
        except IllegalTransition:
            advance(state, reason, history_of(connection, job.id))
        steps.append(state)
    return steps


def _times_of_job(steps: Sequence[JobState], now: float) -> dict[str, Any]:
    times: dict[str, Any] = {}
    if JobState.RUNNING in steps:
        times["started_at"] = now
    if steps[-1] in ENDED:
        times["ended_at"] = now
    if steps[-1] in {JobState.QUEUED, JobState.PAUSED}:
        times |= {"started_at": None, "ended_at": None, "retry_at": None, "stop_by": None, "stop_grace_s": None}
    return times


def _wishes_of_job(state: JobState) -> dict[str, Any]:
    """Whatever was wished of earlier attempts is over once the job is queued."""
    if state is not JobState.QUEUED:
        return {}
    return {"desired": DesiredState.RUN.value, "wished_for": None, "goes_on": False}


def _place_of_job(steps: Sequence[JobState]) -> dict[str, Any]:
    """Where a job was put in the queue, and how often it was passed, holds until a machine has taken it.

    One that comes back because there was no room after all stands where it stood.
    """
    return {"ahead": 0, "passed": 0} if JobState.PENDING in steps else {}


def _times_of_attempt(steps: Sequence[JobState], reason: Reason, now: float) -> dict[str, Any]:
    times: dict[str, Any] = {}
    if JobState.PENDING in steps:
        times["launched_at"] = now
    if JobState.RUNNING in steps:
        times["started_at"] = now
    if steps[-1] in ENDED or steps[-1] in {JobState.QUEUED, JobState.PAUSED}:
        times |= {"ended_at": now, "reason": reason.value}
    return times


def _write_events(
    connection: Connection, job: JobRef, changes: Sequence[tuple[JobState, Reason]], now: float, note: str
) -> None:
    count = 1
    if changes[-1][1] in _COALESCED and changes[-1][0] is JobState.QUEUED:
        count += _take_back_repeats(connection, job.id, changes[-1][1])
    for index, change in enumerate(changes):
        last = index == len(changes) - 1
        told = {**write_note(note), "count": count} if last else {}
        connection.execute(_TELL, _build_event(job, change, now) | told)


def _build_event(job: JobRef, change: tuple[JobState, Reason], now: float) -> dict[str, Any]:
    state, reason = change
    return {
        "job_id": job.id,
        "at": now,
        "kind": "state",
        "state": state.value,
        "reason": reason.value,
        "attempt": job.number or None,
        **write_note(""),
        "count": 1,
    }


def _take_back_repeats(connection: Connection, job: JobId, reason: Reason) -> int:
    """Remove a tail `reason, dequeued` so that it is told once more with a higher count; gives that tail's count."""
    tail = connection.execute(
        select(events.c.number, events.c.reason, events.c.count)
        .where(events.c.job_id == job, events.c.kind == "state")
        .order_by(events.c.number.desc())
        .limit(2)
    ).all()
    if [row.reason for row in tail] != [Reason.DEQUEUED.value, reason.value]:
        return 0
    connection.execute(delete(events).where(events.c.number.in_([row.number for row in tail])))
    repeats: int = tail[1]._mapping["count"]  # noqa: SLF001 - a Row's method hides the column of that name
    return repeats
