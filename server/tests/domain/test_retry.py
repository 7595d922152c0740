"""Whether a failed job runs again, and when what could not be launched is launched again."""

from starforge.contract.ids import JobId
from starforge.contract.states import DesiredState, Reason
from starforge_console.domain.job import QueuedJob
from starforge_console.domain.retry import FREE_RETRIES, RetryBudget, decide_hold, decide_retry

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
    # As the ledger keeps it: a paid retry takes one away and starts the free ones anew, nothing else does.
    left, free, attempts, reasons = 3, 0, 1, [Reason.INTERRUPTED, Reason.EXITED_NONZERO]
    for _ in range(1000):
        plans = [decide_retry(reason, DesiredState.RUN, budget(left, free, attempts), NOW) for reason in reasons]
        plan = plans[0] or plans[1]
        if plan is None:
            break
        left, free = (left - 1, 0) if plan.costs_retry else (left, free + 1)
        attempts += 1
    assert attempts == 1 + 3 + FREE_RETRIES * (3 + 1)


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
    holds = [decide_hold(queued(Reason.NODE_FAULT, number)) - NOW for number in range(2, 10)]
    assert holds == [0, 5, 10, 20, 40, 60, 60, 60]
    assert decide_hold(queued(Reason.NO_CAPACITY, 9)) - NOW == 5.0


def test_what_is_queued_for_any_other_reason_is_not_held_back() -> None:
    for reason in set(Reason) - {Reason.NODE_FAULT, Reason.NO_CAPACITY}:
        assert decide_hold(queued(reason, 9)) == NOW
