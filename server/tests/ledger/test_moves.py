"""A job's state changes in one place, once."""

import concurrent.futures
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.tests.ledger.builders import apply, guard, in_flight, open_ledger, queued, submit, take, wish_stop
from starforge.contract.canonical import digest_bytes
from starforge.contract.ids import new_attempt_id
from starforge.contract.observation import Phase, Seen
from starforge.contract.states import DesiredState, JobState, Reason
from starforge.errors import Conflict, IllegalTransition
from starforge_console.domain.reconcile import Move
from starforge_console.ledger.apply import apply_move, ref_of
from starforge_console.ledger.database import Database
from starforge_console.ledger.endings import list_lost_attempts
from starforge_console.ledger.image_pins import load_image_pins
from starforge_console.ledger.jobs import SubmitKey, delete_job
from starforge_console.ledger.moves import JobRef, enter, move
from starforge_console.ledger.queue import list_due_retries
from starforge_console.ledger.views import list_attempts, list_events, load_job


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Database]:
    with open_ledger(tmp_path) as opened:
        yield opened


def test_a_job_goes_from_queued_to_succeeded_with_one_event_a_step(ledger: Database) -> None:
    job_id = ledger.write_now(submit)
    ledger.write_now(lambda connection: take(connection, job_id))
    ledger.write_now(lambda connection: apply(connection, job_id, Reason.LAUNCHED))
    ledger.write_now(lambda connection: apply(connection, job_id, Reason.STARTED, Reason.EXITED_ZERO, now=30.0))
    job = ledger.read_now(lambda connection: load_job(connection, job_id))
    events = ledger.read_now(lambda connection: list_events(connection, job_id))
    assert (job.state, job.started_at, job.ended_at) == ("SUCCEEDED", 30.0, 30.0)
    assert [event.reason for event in events] == ["admitted", "dequeued", "launched", "started", "exited_zero"]
    assert [event.number for event in events] == sorted(event.number for event in events)


def test_a_job_enters_by_the_table_alone(ledger: Database) -> None:
    with pytest.raises(IllegalTransition, match="does not exist yet"):
        ledger.write_now(lambda connection: enter(connection, {"id": "j234567abc"}, Reason.STARTED, 1.0))


def test_of_two_movers_with_one_reading_only_the_first_wins(ledger: Database) -> None:
    job_id = ledger.write_now(submit)
    job = ledger.write_now(lambda connection: take(connection, job_id))
    launched = Move(reasons=(Reason.LAUNCHED,))
    first = ledger.write_now(lambda connection: apply_move(connection, job, launched, guard(20.0)))
    second = ledger.write_now(lambda connection: apply_move(connection, job, launched, guard(20.0)))
    assert first is not None
    assert second is None
    assert len(ledger.read_now(lambda connection: list_events(connection, job_id))) == 3


def test_a_lease_keeps_others_out_until_it_runs_out(ledger: Database) -> None:
    job_id = ledger.write_now(submit)
    job = ledger.write_now(lambda connection: take(connection, job_id, lease="launcher", now=10.0))
    other = guard(20.0, lease="other", monotonic=20.0)
    late = guard(200.0, lease="other", monotonic=200.0)
    reasons = [Reason.LAUNCHED]
    assert ledger.write_now(lambda connection: move(connection, ref_of(job), reasons, other)) is None
    assert ledger.write_now(lambda connection: move(connection, ref_of(job), reasons, late)) is not None


def test_a_change_that_the_table_does_not_hold_is_refused_with_the_history(ledger: Database) -> None:
    job_id = ledger.write_now(submit)
    ref = JobRef(id=job_id, state=JobState.QUEUED, version=1)
    with pytest.raises(IllegalTransition, match="admitted=QUEUED"):
        ledger.write_now(lambda connection: move(connection, ref, [Reason.EXITED_ZERO], guard()))
    assert ledger.read_now(lambda connection: load_job(connection, job_id)).state == "QUEUED"


def test_a_full_fleet_that_races_is_told_once_with_a_count(ledger: Database) -> None:
    job_id = ledger.write_now(submit)
    for _ in range(3):
        ledger.write_now(lambda connection: take(connection, job_id))
        ledger.write_now(lambda connection: apply(connection, job_id, Reason.NO_CAPACITY))
    events = ledger.read_now(lambda connection: list_events(connection, job_id))
    assert [(event.reason, event.count) for event in events][1:] == [("dequeued", 1), ("no_capacity", 3)]
    assert len(ledger.read_now(lambda connection: list_attempts(connection, job_id))) == 3


def test_a_stop_before_anything_runs_is_final_at_once(ledger: Database) -> None:
    job_id = ledger.write_now(submit)
    ledger.write_now(lambda connection: wish_stop(connection, job_id, None, guard()))
    job = ledger.read_now(lambda connection: load_job(connection, job_id))
    assert (job.state, job.reason) == ("STOPPED", "stop_requested")


def test_a_stop_of_a_running_job_is_a_wish_that_outdates_every_earlier_reading(ledger: Database) -> None:
    job_id = ledger.write_now(submit)
    job = ledger.write_now(lambda connection: take(connection, job_id))
    ledger.write_now(lambda connection: wish_stop(connection, job_id, 5.0, guard(50.0)))
    wished = ledger.read_now(lambda connection: in_flight(connection, job_id))
    assert (wished.desired, wished.stop_by) == (DesiredState.STOP, 55.0)
    stale = ledger.write_now(lambda connection: apply_move(connection, job, Move(reasons=(Reason.LAUNCHED,)), guard()))
    assert stale is None


def test_a_failed_job_with_budget_comes_back_with_a_new_attempt(ledger: Database) -> None:
    job_id = ledger.write_now(lambda connection: submit(connection, retries=1))
    ledger.write_now(lambda connection: take(connection, job_id))
    ledger.write_now(lambda connection: apply(connection, job_id, Reason.LAUNCHED))
    ledger.write_now(lambda connection: apply(connection, job_id, Reason.STARTED, Reason.EXITED_NONZERO, now=30.0))
    none_yet, at = ledger.read_now(lambda connection: list_due_retries(connection, 30.0))
    assert not none_yet
    assert at is not None
    due, _ = ledger.read_now(lambda connection: list_due_retries(connection, at))
    assert ledger.write_now(lambda connection: move(connection, due[0], [Reason.RETRIED], guard(at)))
    job = ledger.write_now(lambda connection: take(connection, job_id, now=at))
    assert job.attempt.number == 2
    ledger.write_now(lambda connection: apply(connection, job_id, Reason.LAUNCHED))
    ledger.write_now(lambda connection: apply(connection, job_id, Reason.STARTED, Reason.EXITED_NONZERO, now=at))
    assert ledger.read_now(lambda connection: load_job(connection, job_id)).retry_at is None


def test_a_stop_takes_a_planned_retry_back(ledger: Database) -> None:
    job_id = ledger.write_now(submit)
    ledger.write_now(lambda connection: take(connection, job_id))
    ledger.write_now(lambda connection: apply(connection, job_id, Reason.LAUNCHED))
    ledger.write_now(lambda connection: apply(connection, job_id, Reason.INTERRUPTED))
    assert ledger.read_now(lambda connection: load_job(connection, job_id)).retry_at is not None
    ledger.write_now(lambda connection: wish_stop(connection, job_id, None, guard()))
    job = ledger.read_now(lambda connection: load_job(connection, job_id))
    assert (job.state, job.retry_at) == ("FAILED", None)


def test_how_an_attempt_ended_stays_as_it_was_when_the_waiting_job_is_stopped(ledger: Database) -> None:
    job_id = ledger.write_now(submit)
    ledger.write_now(lambda connection: take(connection, job_id))
    ledger.write_now(lambda connection: apply(connection, job_id, Reason.NODE_LOST))
    (due,), _ = ledger.read_now(lambda connection: list_due_retries(connection, 1e9))
    ledger.write_now(lambda connection: move(connection, due, [Reason.RETRIED], guard(30.0)))
    ledger.write_now(lambda connection: wish_stop(connection, job_id, None, guard(40.0)))
    assert ledger.read_now(lambda connection: load_job(connection, job_id)).reason == "stop_requested"
    (attempt,) = ledger.read_now(lambda connection: list_attempts(connection, job_id))
    assert (attempt.reason, attempt.ended_at) == ("node_lost", 20.0)
    assert ledger.read_now(lambda connection: list_lost_attempts(connection, job_id)) == (1,)


def test_a_key_gives_the_same_job_and_refuses_another_body(ledger: Database) -> None:
    user = 1
    key = SubmitKey(user_id=user, key="k", body_digest=digest_bytes(b"a"))
    other = SubmitKey(user_id=user, key="k", body_digest=digest_bytes(b"b"))
    first = ledger.write_now(lambda connection: submit(connection, key))
    again = ledger.write_now(lambda connection: submit(connection, key))
    assert first == again
    with pytest.raises(Conflict):
        ledger.write_now(lambda connection: submit(connection, other))


def test_five_hundred_submits_at_once_give_one_job_a_key(ledger: Database) -> None:
    ledger.write_now(submit)
    keys = [SubmitKey(user_id=1, key=f"k{n % 100}", body_digest=digest_bytes(b"a")) for n in range(500)]
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        jobs = list(pool.map(lambda key: ledger.write_now(lambda connection: submit(connection, key)), keys))
    assert len(set(jobs)) == 100


def test_only_an_ended_job_that_is_cleaned_up_can_be_deleted(ledger: Database) -> None:
    job_id = ledger.write_now(submit)
    with pytest.raises(Conflict, match="QUEUED"):
        ledger.write_now(lambda connection: delete_job(connection, job_id))
    ledger.write_now(lambda connection: wish_stop(connection, job_id, None, guard()))
    assert ledger.write_now(lambda connection: delete_job(connection, job_id)) == []


def test_the_next_attempt_has_the_next_number(ledger: Database) -> None:
    job_id = ledger.write_now(submit)
    assert ledger.read_now(lambda connection: queued(connection, job_id)).number == 1
    assert new_attempt_id(job_id, 1) != new_attempt_id(job_id, 1)


def test_what_an_attempt_ran_stays_known_and_the_first_one_counts(ledger: Database) -> None:
    digest = "sha256:" + "1" * 64
    job_id = ledger.write_now(submit)
    ledger.write_now(lambda connection: take(connection, job_id))
    seen = Seen(phase=Phase.RUNNING, at=20.0, image_id="sha256:" + "f" * 64, image_digest=digest)
    started = Move(reasons=(Reason.LAUNCHED, Reason.STARTED), seen=seen)
    job = ledger.read_now(lambda connection: in_flight(connection, job_id))
    assert ledger.read_now(lambda connection: load_image_pins(connection, job_id)) == (None, None)
    ledger.write_now(lambda connection: apply_move(connection, job, started, guard(20.0)))
    assert ledger.read_now(lambda connection: load_image_pins(connection, job_id)) == (None, digest)
