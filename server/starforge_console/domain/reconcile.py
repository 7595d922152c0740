"""What becomes of a job, given what its backend says: `decide` is pure, and not knowing changes nothing."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, TypeAlias

from starforge.contract.capsule import ExitRecord
from starforge.contract.observation import Exit, Failure, Gone, NoSignal, Observation, Phase, Pull, Seen
from starforge.contract.states import DesiredState, JobState, Reason
from starforge.said.sentence import find_fixed, say
from starforge.wording import describe_bytes
from starforge_console.domain.exit_reason import Category, ExitEvidence, ExitReason, explain_exit
from starforge_console.domain.job import JobInFlight
from starforge_console.domain.wishes import confirmed_end, fenced_end

GONE_TWICE_S: Final = 30.0
"""Two answers that nothing is held must lie this far apart before an attempt counts as vanished."""

START_DEADLINE_S: Final = 300.0
"""How long an attempt may prepare without pulling before it is fenced off and tried elsewhere."""

PULL_DEADLINE_S: Final = 600.0
"""The same, while a pull shows no progress."""

LIMIT_SLACK_S: Final = 30.0
"""How long after time limit and grace a runner may take before the backend ends its job."""

STUCK_AFTER_S: Final = 60.0
"""How long after the grace of a stop its job is told to be stuck: its backend kills what is left 20 s after it."""

LAST_STEP: Final = 2**62
"""As far as steps are counted."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing changes; `note` is what people see meanwhile (None keeps the present one)."""

    note: str | None = None


@dataclass(frozen=True, slots=True)
class NoteGone:
    """The first answer that nothing is held: remember when, and by which engine."""

    at: float
    engine_started_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Apply these reasons, in this order, in one transaction.

    `newest_step` is that of the last checkpoint that the runner saw committed; None where there is no telling.
    `held_until` is when the attempt gave back what it held (Unix seconds), where that is known to be before now.
    """

    reasons: tuple[Reason, ...]
    newest_step: int | None = None
    held_until: float | None = None
    exit: ExitReason | None = None
    seen: Seen | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseDoor:
    """Fence the attempt; if the backend confirms that it holds nothing, apply `reason`."""

    reason: Reason
    note: str = field(default="")


@dataclass(frozen=True, slots=True)
class EndNow:
    """Its time limit is long over and it still runs: the backend is to end it, whatever its runner does."""

    note: str


Decision: TypeAlias = Wait | NoteGone | Move | CloseDoor | EndNow

_FAILED_START: Final[dict[Failure, Reason]] = {
    Failure.PULL_DENIED: Reason.PULL_DENIED,
    Failure.START_FAILED: Reason.START_FAILED,
    Failure.NODE_FAULT: Reason.NODE_FAULT,
    Failure.NO_CAPACITY: Reason.NODE_FAULT,
}


def decide(job: JobInFlight, observation: Observation, record: ExitRecord | None, now: float) -> Decision:
    """What `observation` (and the runner's `record`, where there is one) means for `job`, which is PENDING or RUNNING.

    A job whose launch was never confirmed (SUBMITTED) only learns here that it was found after all.
    """
    match observation:
        case NoSignal():
            return Wait(say("note.waiting", node=job.attempt.target.node, why=observation.reason))
        case Gone():
            return _decide_gone(job, observation, record)
        case Seen(phase=Phase.EXITED):
            return _decide_exited(job, observation, record)
        case Seen():
            return _decide_living(job, observation, now)


def end_of_fenced(job: JobInFlight) -> Reason:
    """What became of an attempt whose backend has closed the door on it, and holds nothing of it."""
    if job.state is JobState.SUBMITTED:
        return fenced_end(job.desired, job.wished_for)
    return confirmed_end(job.desired, job.wished_for)


def _decide_living(job: JobInFlight, seen: Seen, now: float) -> Decision:
    is_running = seen.phase is Phase.RUNNING
    decision = _decide_running(job, seen, now) if is_running else _decide_preparing(job, seen, now)
    stuck = _explain_stuck(job, now)
    return Wait(stuck) if stuck and isinstance(decision, Wait) else decision


def _explain_stuck(job: JobInFlight, now: float) -> str:
    """What people read of an end that its backend should have brought about long ago; empty where it is not so."""
    if job.desired is DesiredState.RUN or job.stop_by is None or now - job.stop_by <= STUCK_AFTER_S:
        return ""
    at = datetime.fromtimestamp(job.stop_by, UTC)
    return say("note.stuck", at=f"{at:%Y-%m-%d %H:%M}", node=job.attempt.target.node)


def _decide_running(job: JobInFlight, seen: Seen, now: float) -> Decision:
    if job.desired is DesiredState.RUN and _outlived(job, now):
        return EndNow(say("note.overran", s=f"{job.max_runtime_s:g}"))
    reasons = _catch_up(job.state)
    return Move(reasons=reasons, seen=seen) if reasons else Wait(find_fixed(seen.note or ""))


def _outlived(job: JobInFlight, now: float) -> bool:
    """Whether the runner, which ends a job at its limit, has had its time to do so and has not."""
    if job.max_runtime_s is None or job.attempt.started_at is None:
        return False
    return now - job.attempt.started_at > job.max_runtime_s + job.grace_s + LIMIT_SLACK_S


def _decide_preparing(job: JobInFlight, seen: Seen, now: float) -> Decision:
    if job.state is JobState.SUBMITTED:
        return Move(reasons=(Reason.LAUNCHED,), seen=seen, note=find_fixed(seen.note))
    if job.state is JobState.PENDING and not seen.is_queued and _overdue(job, seen.pull, now):
        return CloseDoor(reason=Reason.NODE_FAULT, note=say("note.late"))
    return Wait(_progress(seen))


def _progress(seen: Seen) -> str:
    """What people read while the attempt prepares: the backend's words, and the bytes where they are known."""
    pull, note = seen.pull, find_fixed(seen.note)
    if pull is None:
        return note
    pulling = say("note.pulling", image=pull.image)
    note = pulling if note == pulling else note
    if pull.total_bytes is None:
        return note
    return say("note.bytes", note=note, done=describe_bytes(pull.done_bytes), total=describe_bytes(pull.total_bytes))


def _overdue(job: JobInFlight, pull: Pull | None, now: float) -> bool:
    if pull is not None:
        return now - pull.progressed_at > PULL_DEADLINE_S
    since = job.attempt.launched_at if job.attempt.launched_at is not None else job.attempt.dequeued_at
    return now - since > START_DEADLINE_S


def _decide_exited(job: JobInFlight, seen: Seen, record: ExitRecord | None) -> Decision:
    if seen.failure is not None:
        return _decide_failed_start(job, seen, seen.failure)
    why = explain_exit(_build_evidence(job, seen.exit, record))
    reasons = (*_catch_up(job.state), why.reason)
    return Move(
        reasons=reasons,
        exit=why,
        seen=seen,
        note=why.summary,
        newest_step=_find_step(record),
        held_until=_find_end(seen.exit, record),
    )


def _decide_failed_start(job: JobInFlight, seen: Seen, failure: Failure) -> Decision:
    before = (Reason.LAUNCHED,) if job.state is JobState.SUBMITTED else ()
    if job.desired is not DesiredState.RUN:
        return Move(reasons=(*before, confirmed_end(job.desired, job.wished_for)), seen=seen, note=seen.note)
    reason = _FAILED_START[failure]
    if job.state is JobState.RUNNING and reason is not Reason.START_FAILED:
        reason = Reason.INTERRUPTED  # it ran before, so it was not its image: the backend's memory of it broke
    return Move(reasons=(*before, reason), seen=seen, note=seen.note)


def _decide_gone(job: JobInFlight, gone: Gone, record: ExitRecord | None) -> Decision:
    if record is not None:
        why = explain_exit(_build_evidence(job, None, record))
        reasons = (*_catch_up(job.state), why.reason)
        step = _find_step(record)
        return Move(reasons=reasons, exit=why, note=why.summary, newest_step=step, held_until=_find_end(None, record))
    if job.state is JobState.SUBMITTED:
        return Wait()  # the launch may still be on its way: only a fence closes it
    since, engine = job.attempt.gone_since, job.attempt.gone_engine_started_at
    if since is None or engine != gone.engine_started_at:
        return NoteGone(gone.at, gone.engine_started_at)
    if gone.at - since < GONE_TWICE_S:
        return Wait()
    if job.desired is not DesiredState.RUN:
        ended = confirmed_end(job.desired, job.wished_for)
        return Move(reasons=(ended,), note=say("note.nothing_left"))
    why = ExitReason(
        reason=Reason.VANISHED,
        category=Category.INFRASTRUCTURE,
        summary=say("exit.gone"),
    )
    return Move(reasons=(Reason.VANISHED,), exit=why, note=why.summary)


def _find_end(engine: Exit | None, record: ExitRecord | None) -> float | None:
    """When the attempt ended: by its backend, which no job can write to, before its record."""
    if engine is not None and engine.finished_at is not None:
        return engine.finished_at
    return None if record is None else record.ended_at


def _find_step(record: ExitRecord | None) -> int | None:
    """The step that the record names, if it is one that a trainer could have counted to: jobs may write to it."""
    if record is None or record.checkpoint is None or not 0 <= record.checkpoint.step <= LAST_STEP:
        return None
    return record.checkpoint.step


def _build_evidence(job: JobInFlight, engine: Exit | None, record: ExitRecord | None) -> ExitEvidence:
    return ExitEvidence(
        engine=engine,
        record=record,
        desired=job.desired,
        stop_sent=job.attempt.stop_sent_at is not None,
        wished_for=job.wished_for,
    )


def _catch_up(state: JobState) -> tuple[Reason, ...]:
    """The reasons that bring `state` to RUNNING: a job that ended between two looks passes through it."""
    match state:
        case JobState.SUBMITTED:
            return (Reason.LAUNCHED, Reason.STARTED)
        case JobState.PENDING:
            return (Reason.STARTED,)
        case _:
            return ()
