"""Whether a failed job runs again, and when one whose launch failed is launched again."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from starforge.contract.states import FREE_OF_CHARGE, DesiredState, Reason
from starforge_console.domain.job import QueuedJob

FREE_RETRIES: Final = 8
"""How often infrastructure may fail a job until a retry is paid for: without a bound a bad machine loops."""

FIRST_DELAY_S: Final = 5.0
LONGEST_DELAY_S: Final = 600.0

LONGEST_HOLD_S: Final = 60.0
"""How long a job whose machine was at fault is kept from the next launch; a mended machine is found again soon."""

_NEVER: Final = frozenset({Reason.LAUNCH_REFUSED, Reason.PULL_DENIED, Reason.START_FAILED, Reason.MAX_RUNTIME})
"""What running again cannot mend."""

BY_ITS_MACHINE: Final = frozenset(
    {Reason.NODE_FAULT, Reason.INTERRUPTED, Reason.VANISHED, Reason.GPU_LOST, Reason.NODE_LOST}
)
"""Ends of an attempt for which its job prefers another machine next."""

_HELD: Final = frozenset({Reason.NO_CAPACITY, Reason.NODE_FAULT})
"""What keeps a queued job from the next launch for a while."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryBudget:
    """What the job may still spend.

    `free_used` starts anew with a retry that the budget pays for. All of it starts anew with a checkpoint of a later
    step than any before (`restore_budget`): between two such, a job runs again by itself at most FREE_RETRIES times for
    each of the retries `given` to it, and once more as often.
    """

    retries_left: int
    free_used: int
    attempts: int
    given: int = 0
    restored_at_step: int | None = None


@dataclass(frozen=True, slots=True)
class RetryPlan:
    """Run it again at `at` (Unix seconds); `costs_retry` says whether the budget pays."""

    at: float
    costs_retry: bool


def restore_budget(budget: RetryBudget, newest_step: int | None) -> RetryBudget:
    """The budget after an attempt whose newest committed checkpoint is of that step: whole again if it came further.

    It came further than the attempts before if the step is later than the one at which the budget was last made whole.
    The waits go on growing with the number of attempts: what commits and fails in quick turns is not repeated faster.
    """
    before = budget.restored_at_step
    if newest_step is None or (before is not None and newest_step <= before):
        return budget
    return replace(budget, retries_left=budget.given, free_used=0, restored_at_step=newest_step)


def decide_retry(reason: Reason, desired: DesiredState, budget: RetryBudget, now: float) -> RetryPlan | None:
    """When a job that failed for `reason` is queued again, or None when it stays failed."""
    if desired is not DesiredState.RUN or reason in _NEVER:
        return None
    if reason in FREE_OF_CHARGE:
        if budget.free_used >= FREE_RETRIES:
            return None
        at_once = reason is Reason.NODE_FAULT and budget.free_used == 0
        return RetryPlan(now + (0.0 if at_once else _delay_s(budget.free_used)), costs_retry=False)
    if budget.retries_left <= 0 or reason is Reason.OUT_OF_MEMORY:
        return None
    return RetryPlan(now + _delay_s(budget.attempts - 1), costs_retry=True)


def is_due(at: float, now: float) -> bool:
    """Whether what was put off until `at` is to be done; it lies beyond every delay once a clock is set back."""
    return at <= now or at > now + LONGEST_DELAY_S


def split_due(queued: Sequence[QueuedJob], now: float) -> tuple[list[QueuedJob], float | None]:
    """The jobs that may be placed at `now`, and when the next one of the others may (Unix seconds)."""
    held = {job.id: at for job in queued if job.reason in _HELD and (at := decide_hold(job, now)) > now}
    return [job for job in queued if job.id not in held] if held else list(queued), min(held.values(), default=None)


def decide_hold(job: QueuedJob, now: float) -> float:
    """When `job` may be placed again (Unix seconds): a launch that just failed would fail again at once, for ever.

    The first fault of a machine is tried again right away; a race for room waits until the machine has had
    time to tell who was faster. A clock that was set back since the job was queued holds nobody.
    """
    if job.queued_at > now:
        return now
    faults = job.number - 1
    if job.reason is Reason.NO_CAPACITY:
        return job.queued_at + FIRST_DELAY_S
    if job.reason is Reason.NODE_FAULT and faults > 1:
        return job.queued_at + min(LONGEST_HOLD_S, _delay_s(faults - 2))
    return job.queued_at


def _delay_s(times_before: int) -> float:
    return min(LONGEST_DELAY_S, FIRST_DELAY_S * 2.0**times_before)
