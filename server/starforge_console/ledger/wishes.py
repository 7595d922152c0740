"""Wishes in the ledger: the only place that writes what is desired of a job."""

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import Connection, Row, select, update

from starforge.contract.ids import JobId
from starforge.contract.states import DesiredState, JobState, Reason
from starforge.errors import Conflict, Unavailable
from starforge.said.sentence import say
from starforge_console.domain.wishes import (
    Answer,
    Ask,
    AtOnce,
    GoOnAfter,
    Nothing,
    Refuse,
    Standing,
    StayAsItIs,
    Wish,
    decide_resume,
    decide_retry_by_user,
    decide_wish,
)
from starforge_console.ledger.missing import refuse_missing_job
from starforge_console.ledger.moves import Change, Guard, JobRef, move, note_timeline
from starforge_console.ledger.tables import jobs

_REQUESTED: Final = {DesiredState.STOP: say("note.stop_requested"), DesiredState.PAUSE: say("note.pause_requested")}


def wish(connection: Connection, job_id: JobId, wished: Wish, guard: Guard) -> bool:
    """Keep what is wished of the job, or do it where nothing of the job is alive; False when nothing changed.

    Users' stops and pauses, drains, maintenance and windows all come through here: a user's wish replaces the
    platform's, and the platform's never a user's.

    Raises:
        NotFound: there is no such job.
        Conflict: a user cannot wish that of it.
        Unavailable: it was being moved at that moment.

    """
    row = _load(connection, job_id)
    answer = decide_wish(_standing(row), wished)
    grace_s = row.grace_s if wished.grace_s is None else wished.grace_s
    stop_by = guard.now + grace_s
    if row.stop_by is not None and row.desired != DesiredState.RUN.value:
        stop_by = min(stop_by, row.stop_by)  # an attempt that is told to hurry hears of no later end
        grace_s = grace_s if row.stop_grace_s is None else min(grace_s, row.stop_grace_s)
    kept: dict[str, Any] = {
        "desired": wished.desired.value,
        "wished_for": None if wished.wished_for is None else wished.wished_for.value,
        "goes_on": wished.goes_on,
        "retry_at": wished.goes_on_at,
    }
    if isinstance(answer, Ask):
        kept |= {"stop_by": stop_by, "stop_grace_s": grace_s}
    note = wished.note or _REQUESTED[wished.desired]
    return _carry_out(connection, row, answer, Change(note=note, job=kept), guard)


def wish_resume(connection: Connection, job_id: JobId, guard: Guard, note: str) -> bool:
    """Let a paused job go on; one whose pause is not confirmed yet goes on by itself once it is. False: nothing to do.

    Raises:
        NotFound: there is no such job.
        Conflict: it is neither paused nor on the way to it, nor waiting or running.
        Unavailable: it was being moved at that moment.

    """
    row = _load(connection, job_id)
    return _carry_out(connection, row, decide_resume(_standing(row)), Change(note=note), guard)


def wish_retry(connection: Connection, job_id: JobId, retries: int, guard: Guard, note: str) -> bool:
    """Queue a failed or stopped job again, with `retries` to spend.

    Raises:
        NotFound: there is no such job.
        Conflict: it did not fail and was not stopped.
        Unavailable: it was being moved at that moment.

    """
    row = _load(connection, job_id)
    budget = {"retries_left": retries, "retries_given": retries, "free_retries": 0}
    return _carry_out(connection, row, decide_retry_by_user(_standing(row)), Change(note=note, job=budget), guard)


def list_going_on(connection: Connection) -> list[JobRef]:
    """Paused jobs that go on by themselves."""
    paused = (jobs.c.state == JobState.PAUSED.value) & jobs.c.goes_on
    return [_ref(row) for row in connection.execute(select(jobs).where(paused).order_by(jobs.c.submitted_at)).all()]


def go_on(connection: Connection, job: JobRef, guard: Guard) -> JobRef | None:
    """Queue a paused job that goes on by itself, unless somebody wished otherwise since it was read."""
    return move(connection, job, [Reason.RESUMED], guard, Change(note=say("note.goes_on")))


def _carry_out(connection: Connection, row: Row[Any], answer: Answer, change: Change, guard: Guard) -> bool:
    match answer:
        case Nothing():
            return False
        case Refuse(why, next_step):
            raise Conflict(say("fault.job_is", job=row.id, state=row.state), why=why, next_step=next_step)
        case AtOnce(reasons):
            if move(connection, _ref(row), reasons, guard, change) is None:
                raise Unavailable(say("fault.moving", job=row.id), next_step=say("fault.moving_next"))
            return True
        case Ask():
            return _keep(connection, row, change.job, guard, change.note)
        case StayAsItIs():
            stays = {"desired": change.job["desired"], "wished_for": None, "goes_on": False, "retry_at": None}
            return _keep(connection, row, stays, guard, change.note)
        case GoOnAfter():
            return _keep(connection, row, {"goes_on": True}, guard, change.note)


def _keep(connection: Connection, row: Row[Any], values: Mapping[str, Any], guard: Guard, note: str) -> bool:
    connection.execute(update(jobs).where(jobs.c.id == row.id).values(version=row.version + 1, **values))
    note_timeline(connection, JobId(row.id), guard.now, note, row.attempt_number or None)
    return True


def _load(connection: Connection, job_id: JobId) -> Row[Any]:
    row = connection.execute(select(jobs).where(jobs.c.id == job_id)).first()
    if row is None:
        raise refuse_missing_job(job_id)
    return row


def _standing(row: Row[Any]) -> Standing:
    return Standing(
        state=JobState(row.state),
        desired=DesiredState(row.desired),
        wished_for=None if row.wished_for is None else Reason(row.wished_for),
        goes_on=row.goes_on,
        will_retry=row.retry_at is not None,
    )


def _ref(row: Row[Any]) -> JobRef:
    return JobRef(
        id=JobId(row.id),
        state=JobState(row.state),
        version=row.version,
        attempt=row.attempt_id,
        number=row.attempt_number,
    )
