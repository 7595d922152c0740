"""What becomes of a job, given what its backend says."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.tests.domain.test_exit_reason import RECORD
from starforge.contract.executor import Target
from starforge.contract.ids import AttemptId, JobId
from starforge.contract.launch import PoolRequest
from starforge.contract.observation import Exit, Failure, Gone, NoSignal, Phase, Pull, Seen
from starforge.contract.states import DesiredState, JobState, Reason
from starforge_console.domain.job import AttemptState, JobInFlight
from starforge_console.domain.reconcile import CloseDoor, EndNow, Move, NoteGone, Wait, decide

NOW = 1_000.0
EXIT_ZERO = Exit(code=0, out_of_memory=False, started_at=900.0, finished_at=990.0, engine_started_at=1.0)


def job(state: JobState = JobState.RUNNING, **changes: object) -> JobInFlight:
    attempt_fields = {field.name for field in dataclasses.fields(AttemptState)}
    attempt = AttemptState(
        id=AttemptId("j234567abc-1-abcdef"),
        number=1,
        target=Target(fleet="local", node="n1", name="sf-j234567abc-1"),
        dequeued_at=890.0,
        launched_at=900.0,
    )
    of_attempt = {name: value for name, value in changes.items() if name in attempt_fields - {"id"}}
    of_job = {name: value for name, value in changes.items() if name not in of_attempt}
    base = JobInFlight(
        id=JobId("j234567abc"),
        state=state,
        reason=Reason.LAUNCHED,
        desired=DesiredState.RUN,
        version=4,
        attempt=dataclasses.replace(attempt, **of_attempt),  # type: ignore[arg-type]  # values of any field
        grace_s=30.0,
        max_runtime_s=None,
        pools=(PoolRequest(name="main", nodes=1, gpus_per_node=0),),
    )
    return dataclasses.replace(base, **of_job)  # type: ignore[arg-type]  # values of any field


IN_FLIGHT = st.builds(
    job,
    state=st.sampled_from([JobState.SUBMITTED, JobState.PENDING, JobState.RUNNING]),
    desired=st.sampled_from(DesiredState),
    gone_since=st.none() | st.floats(0, 2_000),
    stop_by=st.none() | st.floats(0, 2_000),
    stop_sent_at=st.none() | st.floats(0, 2_000),
)


@given(held=IN_FLIGHT, elapsed=st.floats(0, 1e9), record=st.sampled_from([None, RECORD]))
def test_no_signal_changes_no_job_whatever_is_wished_and_however_long_it_lasts(
    held: JobInFlight, elapsed: float, record: object
) -> None:
    decision = decide(held, NoSignal(reason="connection refused"), record, NOW + elapsed)  # type: ignore[arg-type]  # None or a record
    assert isinstance(decision, Wait)


@pytest.mark.parametrize("desired", [DesiredState.STOP, DesiredState.PAUSE])
def test_an_end_that_does_not_come_is_told_to_be_stuck_a_minute_after_its_grace(desired: DesiredState) -> None:
    told = Wait(
        "it was to end by 1970-01-01 00:16 UTC and has not: n1 answers, and its container is still there; look there"
    )
    held = job(desired=desired, stop_by=NOW)
    running, pulling = Seen(phase=Phase.RUNNING, at=NOW), Seen(phase=Phase.PREPARING, at=NOW)
    assert decide(held, running, None, NOW + 60.0) == Wait("")
    assert decide(held, running, None, NOW + 61.0) == told
    assert decide(job(JobState.PENDING, desired=desired, stop_by=NOW), pulling, None, NOW + 61.0) == told
    assert decide(job(JobState.PENDING, desired=desired, stop_by=NOW), running, None, NOW + 61.0) != told
    assert decide(job(stop_by=NOW), running, None, NOW + 61.0) == Wait("")


def test_a_running_container_moves_a_pending_job_and_leaves_a_running_one() -> None:
    seen = Seen(phase=Phase.RUNNING, at=NOW)
    moved = decide(job(JobState.PENDING), seen, None, NOW)
    assert isinstance(moved, Move)
    assert moved.reasons == (Reason.STARTED,)
    assert isinstance(decide(job(), seen, None, NOW), Wait)


def test_a_job_that_ended_between_two_looks_passes_through_running() -> None:
    moved = decide(job(JobState.PENDING), Seen(phase=Phase.EXITED, at=NOW, exit=EXIT_ZERO), RECORD, NOW)
    assert isinstance(moved, Move)
    assert moved.reasons == (Reason.STARTED, Reason.EXITED_ZERO)


def test_a_launch_whose_answer_was_lost_is_found_by_its_container() -> None:
    moved = decide(job(JobState.SUBMITTED), Seen(phase=Phase.RUNNING, at=NOW), None, NOW)
    assert isinstance(moved, Move)
    assert moved.reasons == (Reason.LAUNCHED, Reason.STARTED)


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (Failure.PULL_DENIED, Reason.PULL_DENIED),
        (Failure.START_FAILED, Reason.START_FAILED),
        (Failure.NODE_FAULT, Reason.NODE_FAULT),
        (Failure.NO_CAPACITY, Reason.NODE_FAULT),
    ],
)
def test_a_failed_start_keeps_its_reason(failure: Failure, reason: Reason) -> None:
    seen = Seen(phase=Phase.EXITED, at=NOW, failure=failure, note="the engine's own words")
    moved = decide(job(JobState.PENDING), seen, None, NOW)
    assert isinstance(moved, Move)
    assert (moved.reasons, moved.note) == ((reason,), "the engine's own words")


def test_vanished_needs_two_answers_half_a_minute_apart_from_one_engine() -> None:
    first = decide(job(), Gone(at=NOW, engine_started_at=1.0), None, NOW)
    assert first == NoteGone(NOW, 1.0)
    noted = job(gone_since=NOW, gone_engine_started_at=1.0)
    assert decide(noted, Gone(at=NOW + 10, engine_started_at=1.0), None, NOW + 10) == Wait()
    other_engine = decide(noted, Gone(at=NOW + 40, engine_started_at=2.0), None, NOW + 40)
    assert other_engine == NoteGone(NOW + 40, 2.0)
    moved = decide(noted, Gone(at=NOW + 31, engine_started_at=1.0), None, NOW + 31)
    assert isinstance(moved, Move)
    assert moved.reasons == (Reason.VANISHED,)


def test_gone_with_a_record_ends_as_recorded() -> None:
    moved = decide(job(), Gone(at=NOW), RECORD, NOW)
    assert isinstance(moved, Move)
    assert moved.reasons == (Reason.EXITED_ZERO,)


def test_gone_says_nothing_of_a_launch_that_may_still_be_on_its_way() -> None:
    assert decide(job(JobState.SUBMITTED), Gone(at=NOW), None, NOW) == Wait()


def test_an_attempt_that_does_not_start_is_fenced_off_after_its_deadline() -> None:
    seen = Seen(phase=Phase.PREPARING, at=NOW)
    assert isinstance(decide(job(JobState.PENDING), seen, None, NOW + 100), Wait)
    assert decide(job(JobState.PENDING), seen, None, NOW + 500) == CloseDoor(
        reason=Reason.NODE_FAULT, note="the attempt did not start in time"
    )


def test_what_waits_in_a_queue_of_its_backends_has_no_deadline() -> None:
    seen = Seen(phase=Phase.PREPARING, at=NOW, is_queued=True, note="waits")
    assert decide(job(JobState.PENDING), seen, None, NOW + 86_400) == Wait("waits")


def test_a_pull_that_goes_on_has_no_deadline() -> None:
    pull = Pull(image="x:1", done_bytes=1, total_bytes=10**12, progressed_at=NOW + 86_000)
    seen = Seen(phase=Phase.PREPARING, at=NOW, pull=pull, note="pulling")
    assert decide(job(JobState.PENDING), seen, None, NOW + 86_400) == Wait("pulling: 1 B of 931.3 GiB")


def test_an_image_that_cannot_start_is_a_failed_start_also_when_it_was_seen_to_run_for_a_moment() -> None:
    seen = Seen(phase=Phase.EXITED, at=NOW, failure=Failure.START_FAILED, note="image has no bash")
    moved = decide(job(), seen, None, NOW)
    assert isinstance(moved, Move)
    assert moved.reasons == (Reason.START_FAILED,)


def test_other_failed_starts_of_a_job_that_ran_are_an_interruption() -> None:
    moved = decide(job(), Seen(phase=Phase.EXITED, at=NOW, failure=Failure.NODE_FAULT), None, NOW)
    assert isinstance(moved, Move)
    assert moved.reasons == (Reason.INTERRUPTED,)


def test_a_job_that_outlives_its_limit_is_ended_by_the_backend() -> None:
    held = job(started_at=NOW, max_runtime_s=60.0)
    seen = Seen(phase=Phase.RUNNING, at=NOW)
    assert isinstance(decide(held, seen, None, NOW + 60.0 + 30.0 + 29.0), Wait)
    assert isinstance(decide(held, seen, None, NOW + 60.0 + 30.0 + 31.0), EndNow)
    assert isinstance(decide(job(started_at=NOW), seen, None, NOW + 1e9), Wait)
