"""Applies a decision to a job: the move, what was seen of its attempt and the retry, in one transaction."""

import json
from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection

from starforge.contract.observation import Seen
from starforge.contract.states import ENDED, FREE_OF_CHARGE, DesiredState, JobState, Reason, advance
from starforge_console.domain.exit_reason import ExitReason
from starforge_console.domain.job import JobInFlight
from starforge_console.domain.reconcile import Move
from starforge_console.domain.retry import RetryBudget, RetryPlan, decide_retry, restore_budget
from starforge_console.domain.wishes import stays_paused
from starforge_console.ledger.endings import end_token
from starforge_console.ledger.moves import Change, Guard, JobRef, move
from starforge_console.ledger.queue import find_newest_step, load_budget

TOKEN_AFTER_END_S: Final = 3600.0
"""How long an attempt may still report after its end."""


def ref_of(job: JobInFlight) -> JobRef:
    """The job as a move guards it."""
    return JobRef(id=job.id, state=job.state, version=job.version, attempt=job.attempt.id, number=job.attempt.number)


def apply_move(
    connection: Connection, job: JobInFlight, decision: Move, guard: Guard, series: Sequence[str] = ()
) -> JobRef | None:
    """Apply `decision`; None when the job has changed since it was read, and then nothing is written.

    `series` are those of the GPUs that were seen; none where they are not known.
    """
    after = _state_after(job.state, decision.reasons)
    retry = None
    job_values: dict[str, Any] = {}
    if after is JobState.FAILED:
        budget = _load_restored(connection, job, decision)
        # What fails while it is to be paused or stopped for a while would have gone on by itself.
        desired = DesiredState.RUN if job.goes_on else job.desired
        retry = decide_retry(decision.reasons[-1], desired, budget, guard.now)
        job_values = _retry_values(retry, budget)
    elif after in ENDED and decision.reasons[-1] is not Reason.WINDOW_CLOSED:
        job_values = {"retry_at": None}  # it ended for good before a window could stop it for a while
    attempt_values = {**_seen_values(decision.seen), **_exit_values(decision.exit, decision.reasons[-1], retry)}
    if series:
        attempt_values["series"] = " ".join(series)
    reasons = decision.reasons
    if after is JobState.FAILED and stays_paused(job.desired, job.wished_for, reasons[-1], goes_on=job.goes_on):
        attempt_values["reason"] = reasons[-1].value
        reasons = (*reasons, Reason.RETRIED, Reason.PAUSE_REQUESTED)
    change = Change(note=decision.note, job=job_values, attempt=attempt_values, held_until=decision.held_until)
    moved = move(connection, ref_of(job), reasons, guard, change)
    if moved is not None and after not in {JobState.PENDING, JobState.RUNNING}:
        end_token(connection, job.attempt.id, guard.now + TOKEN_AFTER_END_S)
    return moved


def ends_attempt(reasons: Sequence[Reason], state: JobState) -> bool:
    """Whether the attempt is over once `reasons` are applied to `state`."""
    return _state_after(state, reasons) in ENDED | {JobState.QUEUED, JobState.PAUSED}


def _state_after(state: JobState, reasons: Sequence[Reason]) -> JobState:
    for reason in reasons:
        state = advance(state, reason)
    return state


def _load_restored(connection: Connection, job: JobInFlight, decision: Move) -> RetryBudget:
    """The job's budget, whole again where its attempt told of a newer checkpoint: itself, or in its record."""
    told = (find_newest_step(connection, job.attempt.id), decision.newest_step)
    return restore_budget(
        load_budget(connection, job.id), max((step for step in told if step is not None), default=None)
    )


def _retry_values(retry: RetryPlan | None, budget: RetryBudget) -> dict[str, Any]:
    left, free = budget.retries_left, budget.free_used
    if retry is not None:
        left, free = (left - 1, 0) if retry.costs_retry else (left, free + 1)
    at = None if retry is None else retry.at
    return {
        "retry_at": at,
        "retries_left": left,
        "free_retries": free,
        "restored_at_step": budget.restored_at_step,
    }


def _seen_values(seen: Seen | None) -> dict[str, Any]:
    if seen is None:
        return {}
    values: dict[str, Any] = {}
    if seen.gpus:
        values["gpus"] = json.dumps(list(seen.gpus))
    if seen.image_id is not None:
        values["image_id"] = seen.image_id
    if seen.image_digest is not None:
        values["image_digest"] = seen.image_digest
    return values


def _exit_values(why: ExitReason | None, reason: Reason, retry: RetryPlan | None) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if retry is not None:
        values["costs_retry"] = reason not in FREE_OF_CHARGE
    if why is not None:
        evidence = {
            "category": why.category.value,
            "summary": why.summary,
            "confidence": why.confidence.value,
            "facts": why.facts,
        }
        values |= {"exit_code": why.code, "evidence": json.dumps(evidence)}
    return values
