"""Why an attempt ended."""

import dataclasses
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from starforge.contract.capsule import CAPSULE_VERSION, EXIT_UNRECORDED, ExitRecord
from starforge.contract.observation import EndCause, Exit
from starforge.contract.states import DesiredState, Reason
from starforge_console.domain.exit_reason import Category, ExitEvidence, ExitReason, explain_exit

RECORD = ExitRecord(
    version=CAPSULE_VERSION,
    attempt="j234567abc-1-abcdef",
    code=0,
    signal=None,
    term_received_at=None,
    desired="run",
    complete=None,
    reason=None,
    message=None,
    started_at=100.0,
    ended_at=160.0,
)
ENGINE = Exit(code=0, out_of_memory=False, started_at=99.0, finished_at=160.0, engine_started_at=10.0)


def explain(
    engine: Exit | None = ENGINE,
    record: ExitRecord | None = RECORD,
    desired: DesiredState = DesiredState.RUN,
    *,
    stop_sent: bool = False,
    wished_for: Reason | None = None,
) -> ExitReason:
    evidence = ExitEvidence(engine=engine, record=record, desired=desired, stop_sent=stop_sent, wished_for=wished_for)
    return explain_exit(evidence)


def engine(**changes: float | bool | str | None) -> Exit:
    return dataclasses.replace(ENGINE, **changes)  # type: ignore[arg-type]  # values of any field


def record(**changes: object) -> ExitRecord:
    return dataclasses.replace(RECORD, **changes)  # type: ignore[arg-type]  # values of any field


def test_zero_with_a_record_succeeds() -> None:
    assert explain().reason is Reason.EXITED_ZERO


def test_a_failed_training_is_told_of_by_its_last_line() -> None:
    why = explain(engine(code=1), record(code=1, last_line="KeyError: 'text'"))
    assert why.reason is Reason.EXITED_NONZERO
    assert why.summary == "exit code 1: KeyError: 'text'"
    assert why.facts["last_line"] == "KeyError: 'text'"
    assert explain(engine(code=1), record(code=1)).summary == "exit code 1"
    assert explain(engine(code=1), record(code=1, message="m", last_line="x")).summary == "m"


def test_zero_without_a_record_is_no_success() -> None:
    assert explain(record=None).reason is Reason.INTERRUPTED


def test_a_job_that_took_its_records_place_away_fails_by_its_own_doing() -> None:
    why = explain(engine(code=EXIT_UNRECORDED), record=None)
    assert (why.reason, why.category, why.costs_retry) == (Reason.EXITED_NONZERO, Category.USER_ERROR, True)
    assert "the exit record could not be written" in why.summary


def test_the_same_code_with_a_record_is_the_jobs_own() -> None:
    why = explain(engine(code=EXIT_UNRECORDED), record(code=EXIT_UNRECORDED))
    assert why.summary == f"exit code {EXIT_UNRECORDED}"


def test_a_record_that_says_seven_worsens_an_engine_that_says_zero() -> None:
    why = explain(record=record(code=7))
    assert (why.reason, why.code) == (Reason.EXITED_NONZERO, 7)


def test_a_record_never_turns_a_nonzero_exit_into_success() -> None:
    assert explain(engine(code=3)).reason is Reason.EXITED_NONZERO


def test_zero_after_a_term_nobody_asked_for_is_interrupted() -> None:
    why = explain(record=record(term_received_at=150.0))
    assert (why.reason, why.category, why.costs_retry) == (Reason.INTERRUPTED, Category.INFRASTRUCTURE, False)


def test_zero_after_such_a_term_succeeds_when_the_training_was_complete() -> None:
    assert explain(record=record(term_received_at=150.0, complete=True)).reason is Reason.EXITED_ZERO


def test_an_exit_that_the_engine_lost_is_interrupted_unless_the_record_is_complete() -> None:
    lost = engine(code=255, finished_at=200.0, engine_started_at=200.0)
    assert explain(lost, record=None).reason is Reason.INTERRUPTED
    assert explain(lost).reason is Reason.INTERRUPTED
    assert explain(lost, record(complete=True)).reason is Reason.EXITED_ZERO
    assert explain(lost, record(code=7)).reason is Reason.EXITED_NONZERO


def test_255_that_ended_before_the_engine_started_is_the_jobs_own_code() -> None:
    why = explain(engine(code=255), record(code=255))
    assert (why.reason, why.code) == (Reason.EXITED_NONZERO, 255)


def test_a_container_that_is_gone_ends_as_recorded() -> None:
    assert explain(None).reason is Reason.EXITED_ZERO
    assert explain(None, record(code=4)).code == 4


def test_137_after_our_own_stop_is_a_stop() -> None:
    why = explain(engine(code=137), None, DesiredState.STOP, stop_sent=True)
    assert (why.reason, why.category) == (Reason.STOP_CONFIRMED, Category.STOPPED)
    assert explain(engine(code=137), None, DesiredState.PAUSE, stop_sent=True).reason is Reason.PAUSE_CONFIRMED


def test_the_end_that_the_platform_wished_has_the_reason_of_its_wish() -> None:
    drained = record(desired="pause")
    why = explain(engine(), drained, DesiredState.PAUSE, stop_sent=True, wished_for=Reason.DRAINED)
    assert (why.reason, why.category) == (Reason.DRAINED, Category.STOPPED)
    closed = explain(
        engine(code=143), record(code=143, desired="stop"), DesiredState.STOP, wished_for=Reason.WINDOW_CLOSED
    )
    assert closed.reason is Reason.WINDOW_CLOSED


def test_what_failed_before_a_pause_reached_it_has_failed_and_one_that_was_to_stop_is_stopped() -> None:
    failed = record(code=1)
    assert explain(engine(code=1), failed, DesiredState.PAUSE, stop_sent=True).reason is Reason.EXITED_NONZERO
    closing = explain(engine(code=1), failed, DesiredState.STOP, wished_for=Reason.WINDOW_CLOSED)
    assert closing.reason is Reason.EXITED_NONZERO
    assert explain(engine(code=1), failed, DesiredState.STOP).reason is Reason.STOP_CONFIRMED


def test_what_was_complete_while_it_paused_has_succeeded() -> None:
    whole = record(desired="pause", complete=True)
    assert explain(engine(), whole, DesiredState.PAUSE, stop_sent=True).reason is Reason.EXITED_ZERO
    half = record(desired="pause", complete=False)
    assert explain(engine(), half, DesiredState.PAUSE, stop_sent=True).reason is Reason.PAUSE_CONFIRMED
    untold = record(desired="pause")
    assert explain(engine(), untold, DesiredState.PAUSE, stop_sent=True).reason is Reason.PAUSE_CONFIRMED


def test_a_job_that_had_finished_before_the_stop_reached_it_succeeded() -> None:
    assert explain(desired=DesiredState.STOP, stop_sent=True).reason is Reason.EXITED_ZERO


def test_out_of_memory_needs_a_kill_to_be_sure() -> None:
    sure = explain(engine(code=137, out_of_memory=True), None)
    likely = explain(engine(code=1, out_of_memory=True), record(code=1))
    assert (sure.reason, sure.confidence) == (Reason.OUT_OF_MEMORY, "sure")
    assert (likely.reason, likely.confidence) == (Reason.OUT_OF_MEMORY, "likely")


def test_exit_zero_is_never_out_of_memory() -> None:
    assert explain(engine(out_of_memory=True), record(memory={"oom_kill": 2})).reason is Reason.EXITED_ZERO


def test_the_runner_counts_where_the_flag_is_missing() -> None:
    assert explain(engine(code=137), record(code=137, memory={"oom_kill": 1})).reason is Reason.OUT_OF_MEMORY


def test_a_refusal_before_the_start_is_a_failed_start() -> None:
    refused = record(code=78, started_at=None, reason="requirements", message="needs trl >=1.9; this image has 0.9.6")
    assert explain(engine(code=78), refused).summary == "needs trl >=1.9; this image has 0.9.6"
    assert explain(engine(code=78), refused).reason is Reason.START_FAILED
    taken = record(code=75, started_at=None, reason="port_taken", message="port 24000 (MASTER_PORT) is taken")
    answer = explain(engine(code=75), taken)
    assert (answer.reason, answer.category, answer.costs_retry) == (Reason.INTERRUPTED, Category.INFRASTRUCTURE, False)
    assert "24000" in answer.summary
    assert explain(engine(code=75), None).reason is Reason.EXITED_NONZERO
    ran = record(code=75, started_at=1.0, reason="port_taken")
    assert explain(engine(code=75), ran).reason is Reason.EXITED_NONZERO
    assert explain(engine(code=98), None).reason is Reason.START_FAILED
    assert explain(engine(code=97), None).reason is Reason.START_FAILED


def test_78_of_the_training_itself_is_its_own_failure() -> None:
    assert explain(engine(code=78), record(code=78)).reason is Reason.EXITED_NONZERO


def test_the_time_limit_is_named() -> None:
    assert explain(engine(code=143), record(code=143, reason="max_runtime")).reason is Reason.MAX_RUNTIME


def test_a_kill_by_an_engine_restart_is_interrupted_and_one_by_nobody_known_is_unknown() -> None:
    restarted = engine(code=137, engine_started_at=150.0)
    assert explain(restarted, None).reason is Reason.INTERRUPTED
    assert explain(engine(code=137), None).category is Category.UNKNOWN
    assert explain(engine(code=143), None).category is Category.UNKNOWN
    assert explain(engine(code=143), record(code=143)).category is Category.USER_ERROR


def test_255_of_an_engine_whose_start_is_not_known_may_be_a_lost_exit() -> None:
    assert explain(engine(code=255, engine_started_at=None), None).category is Category.UNKNOWN
    assert explain(engine(code=255, engine_started_at=170.0), None).category is Category.USER_ERROR


def test_a_job_that_the_backend_ended_at_its_limit_is_told_so() -> None:
    assert explain(engine(code=137), None, stop_sent=True).reason is Reason.MAX_RUNTIME
    trapped = record(term_received_at=150.0)
    assert explain(engine(), trapped, stop_sent=True).reason is Reason.MAX_RUNTIME
    assert explain(stop_sent=True).reason is Reason.EXITED_ZERO


CODES = st.sampled_from([0, 1, 3, 78, 97, 98, 137, 143, 255, None])
RECORDS = st.none() | st.builds(
    record,
    code=st.sampled_from([0, 1, 78, 137, 143]),
    term_received_at=st.none() | st.just(150.0),
    complete=st.sampled_from([None, False, True]),
    started_at=st.none() | st.just(100.0),
)


@given(
    code=CODES,
    oom=st.booleans(),
    restarted=st.booleans(),
    left=RECORDS,
    desired=st.sampled_from(DesiredState),
    sent=st.booleans(),
)
def test_success_always_has_a_record_that_says_zero(  # noqa: PLR0913 - one argument a dimension
    code: int | None, *, oom: bool, restarted: bool, left: ExitRecord | None, desired: DesiredState, sent: bool
) -> None:
    seen = engine(code=code, out_of_memory=oom, engine_started_at=160.0 if restarted else 10.0)
    why = explain(seen, left, desired, stop_sent=sent)
    if why.reason is Reason.EXITED_ZERO:
        assert left is not None
        assert left.code == 0
        assert left.term_received_at is None or left.complete
        assert code in {0, None, 255}


def test_the_rule_answers_for_every_combination() -> None:
    for code, oom, desired in itertools.product([0, 7, 137, 255, None], [False, True], DesiredState):
        assert explain(engine(code=code, out_of_memory=oom), None, desired).summary


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        (EndCause.TIME_LIMIT, Reason.MAX_RUNTIME),
        (EndCause.PREEMPTED, Reason.PREEMPTED),
        (EndCause.NODE_FAILED, Reason.INTERRUPTED),
    ],
)
def test_what_a_backend_ended_it_for_counts_before_any_code(cause: EndCause, reason: Reason) -> None:
    assert explain(engine(code=0, cause=cause), record(code=0, complete=True)).reason is reason
    assert explain(engine(code=None, cause=cause)).reason is reason
