"""Whether a failed job runs again, and when what could not be launched is launched again."""

import pytest

from starforge.contract.ids import JobId
from starforge.contract.states import DesiredState, Reason
from starforge_console.domain.job import QueuedJob
from starforge_console.domain.retry import (
    FREE_RETRIES,
    LONGEST_DELAY_S,
    RetryBudget,
    decide_hold,
    decide_retry,
    is_due,
    restore_budget,
)

NOW = 50.0


def budget(left: int = 0, free: int = 0, attempts: int = 1) -> RetryBudget:
    return RetryBudget(retries_left=left, free_used=free, attempts=attempts)


def test_infrastructure_is_retried_free_of_charge() -> None:
    plan = decide_retry(Reason.INTERRUPTED, DesiredState.RUN, budget(), NOW)
    assert plan is not None
    assert not plan.costs_retry
    assert plan.at > NOW


def test_a_node_fault_is_retried_at_once_the_first_time() -> None:
    first = decide_retry(Reason.NODE_FAULT, DesiredState.RUN, budget(), NOW)
    second = decide_retry(Reason.NODE_FAULT, DesiredState.RUN, budget(free=1), NOW)
    assert first is not None
    assert first.at == NOW
    assert second is not None
    assert second.at > NOW


def test_infrastructure_that_fails_for_ever_is_not_retried_for_ever() -> None:
    assert decide_retry(Reason.INTERRUPTED, DesiredState.RUN, budget(free=FREE_RETRIES), NOW) is None


def test_faults_and_failures_in_any_order_end_after_a_bounded_count_of_attempts() -> None:
    # As the ledger keeps it, without progress: a paid retry takes one away and starts the free ones anew.
    left, free, attempts, reasons = 3, 0, 1, [Reason.INTERRUPTED, Reason.EXITED_NONZERO]
    for _ in range(1000):
        plans = [decide_retry(reason, DesiredState.RUN, budget(left, free, attempts), NOW) for reason in reasons]
        plan = plans[0] or plans[1]
        if plan is None:
            break
        left, free = (left - 1, 0) if plan.costs_retry else (left, free + 1)
        attempts += 1
    assert attempts == 1 + 3 + FREE_RETRIES * (3 + 1)


def test_a_newer_checkpoint_makes_the_budget_whole_and_the_free_retries_too() -> None:
    spent = RetryBudget(retries_left=0, free_used=FREE_RETRIES, attempts=12, given=3, restored_at_step=100)
    whole = restore_budget(spent, 101)
    assert whole == RetryBudget(retries_left=3, free_used=0, attempts=12, given=3, restored_at_step=101)
    assert decide_retry(Reason.EXITED_NONZERO, DesiredState.RUN, whole, NOW) is not None
    assert decide_retry(Reason.INTERRUPTED, DesiredState.RUN, whole, NOW) is not None
    assert decide_retry(Reason.EXITED_NONZERO, DesiredState.RUN, spent, NOW) is None


@pytest.mark.parametrize(("before", "newest"), [(None, None), (100, None), (100, 99), (100, 100)])
def test_what_came_no_further_than_before_restores_nothing(before: int | None, newest: int | None) -> None:
    spent = RetryBudget(retries_left=0, free_used=5, attempts=12, given=3, restored_at_step=before)
    assert restore_budget(spent, newest) == spent


def test_a_first_checkpoint_counts_whatever_its_step() -> None:
    spent = RetryBudget(retries_left=0, free_used=5, attempts=2, given=3)
    assert restore_budget(spent, 0).retries_left == 3


def test_a_job_that_was_given_no_retries_gets_none_by_its_checkpoints() -> None:
    whole = restore_budget(RetryBudget(retries_left=0, free_used=0, attempts=2), 7)
    assert decide_retry(Reason.EXITED_NONZERO, DesiredState.RUN, whole, NOW) is None


def test_what_commits_and_fails_in_quick_turns_is_not_repeated_faster() -> None:
    budget_after = restore_budget(RetryBudget(retries_left=0, free_used=0, attempts=20, given=1), 7)
    plan = decide_retry(Reason.EXITED_NONZERO, DesiredState.RUN, budget_after, NOW)
    assert plan is not None
    assert plan.at == NOW + 600.0


def test_the_jobs_own_failure_is_retried_only_within_its_budget() -> None:
    assert decide_retry(Reason.EXITED_NONZERO, DesiredState.RUN, budget(), NOW) is None
    plan = decide_retry(Reason.EXITED_NONZERO, DesiredState.RUN, budget(left=1), NOW)
    assert plan is not None
    assert plan.costs_retry


def test_what_running_again_cannot_mend_is_not_retried() -> None:
    for reason in (Reason.START_FAILED, Reason.PULL_DENIED, Reason.LAUNCH_REFUSED, Reason.OUT_OF_MEMORY):
        assert decide_retry(reason, DesiredState.RUN, budget(left=5), NOW) is None


def test_a_job_that_is_wished_to_stop_is_never_retried() -> None:
    assert decide_retry(Reason.INTERRUPTED, DesiredState.STOP, budget(left=5), NOW) is None


def test_the_delay_grows_and_is_bounded() -> None:
    delays = []
    for free in range(FREE_RETRIES):
        plan = decide_retry(Reason.INTERRUPTED, DesiredState.RUN, budget(free=free), NOW)
        assert plan is not None
        delays.append(plan.at - NOW)
    assert delays == sorted(delays)
    assert delays[-1] <= 600.0


def queued(reason: Reason, number: int) -> QueuedJob:
    return QueuedJob(
        id=JobId("j234567abc"),
        version=1,
        fleet=None,
        priority=0,
        submitted_at=1.0,
        reason=reason,
        queued_at=NOW,
        number=number,
        pools=(),
    )


def test_what_just_failed_to_launch_is_held_back_longer_each_time_up_to_a_minute() -> None:
    holds = [decide_hold(queued(Reason.NODE_FAULT, number), NOW) - NOW for number in range(2, 10)]
    assert holds == [0, 5, 10, 20, 40, 60, 60, 60]
    assert decide_hold(queued(Reason.NO_CAPACITY, 9), NOW) - NOW == 5.0


def test_what_is_queued_for_any_other_reason_is_not_held_back() -> None:
    for reason in set(Reason) - {Reason.NODE_FAULT, Reason.NO_CAPACITY}:
        assert decide_hold(queued(reason, 9), NOW) == NOW


@pytest.mark.parametrize("reason", [Reason.ADMITTED, Reason.NO_CAPACITY, Reason.NODE_FAULT])
def test_a_clock_that_was_set_back_holds_no_queued_job(reason: Reason) -> None:
    assert decide_hold(queued(reason, 9), NOW - 7200.0) == NOW - 7200.0


def test_a_retry_is_due_at_its_time_and_where_a_clock_was_set_back_at_once() -> None:
    assert [is_due(100.0, now) for now in (99.0, 100.0, 101.0)] == [False, True, True]
    assert [is_due(100.0 + LONGEST_DELAY_S, now) for now in (100.0, 99.0)] == [False, True]
