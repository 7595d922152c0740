"""Where administrators put queued jobs, and how often jobs were passed."""

from pathlib import Path

import pytest
from sqlalchemy import select

from server.tests.ledger.builders import apply, guard, open_ledger, queued, submit, take
from starforge.contract.executor import Target
from starforge.contract.ids import JobId, new_attempt_id
from starforge.contract.queue import QueueMove
from starforge.contract.states import Reason
from starforge.errors import Conflict, NotFound
from starforge_console.domain.job import QueuedJob
from starforge_console.domain.order import order_queue
from starforge_console.ledger.database import Database
from starforge_console.ledger.queue import NewAttempt, dequeue, list_queued
from starforge_console.ledger.queue_order import find_place, list_places
from starforge_console.ledger.queue_places import put_in_queue
from starforge_console.ledger.tables import jobs
from starforge_console.ledger.views import list_events


def put(ledger: Database, job: JobId, to: QueueMove) -> bool:
    return ledger.write_now(lambda c: put_in_queue(c, job, to, "root", 50.0))


def order(ledger: Database) -> list[str]:
    """The order of the pages, which is the scheduler's."""
    told = [place.job for place in ledger.read_now(lambda c: list_places(c, 100))]
    assert told == [job.id for job in order_queue(ledger.read_now(list_queued))]
    assert ledger.read_now(lambda c: [find_place(c, job) for job in told]) == list(range(1, len(told) + 1))
    return told


def counts(ledger: Database, job: JobId) -> tuple[int, int]:
    """How far the job was moved, and how often it was passed."""
    row = ledger.read_now(lambda c: c.execute(select(jobs.c.ahead, jobs.c.passed).where(jobs.c.id == job)).one())
    return (row.ahead, row.passed)


def notes(ledger: Database, job: JobId) -> list[str]:
    return [event.note for event in ledger.read_now(lambda c: list_events(c, job)) if event.kind == "timeline"]


def test_a_job_is_put_first_or_last_and_goes_back_to_its_own_place(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        a, b, c, d = ledger.write_now(lambda c: [submit(c, now=float(at)) for at in range(4)])
        assert put(ledger, c, "first")
        assert put(ledger, a, "last")
        assert order(ledger) == [c, b, d, a]
        assert put(ledger, d, "first")
        assert put(ledger, b, "last")
        assert order(ledger) == [d, c, a, b]
        for job in (d, c, a, b):
            assert put(ledger, job, "release")
        assert order(ledger) == [a, b, c, d]
        assert notes(ledger, c) == ["put first in the queue by root", "put back to its own place in the queue by root"]


def test_an_urgent_job_stands_behind_one_that_was_put_first(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        urgent = ledger.write_now(lambda c: submit(c, priority=1))
        job = ledger.write_now(lambda c: submit(c, priority=-1, now=5.0))
        put(ledger, job, "first")
        assert order(ledger) == [job, urgent]


@pytest.mark.parametrize("to", ["first", "last", "release"])
def test_what_is_said_twice_is_told_once(tmp_path: Path, to: QueueMove) -> None:
    with open_ledger(tmp_path) as ledger:
        job, other = ledger.write_now(submit), ledger.write_now(submit)
        put(ledger, other, to)
        done = put(ledger, job, to)
        told = notes(ledger, job)
        assert not put(ledger, job, to)
        assert notes(ledger, job) == told
        assert len(told) == done


def test_a_job_that_is_not_queued_has_no_place(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        job = ledger.write_now(submit)
        ledger.write_now(lambda c: take(c, job))
        with pytest.raises(Conflict, match="is SUBMITTED"):
            put(ledger, job, "first")
        with pytest.raises(NotFound):
            put(ledger, JobId("jnone"), "first")


def test_a_job_that_starts_has_used_up_where_it_was_put(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        job = ledger.write_now(submit)
        put(ledger, job, "first")
        ledger.write_now(lambda c: take(c, job))
        ledger.write_now(lambda c: apply(c, job, Reason.LAUNCHED))
        assert counts(ledger, job) == (0, 0)


@pytest.mark.parametrize("reason", [Reason.NO_CAPACITY, Reason.NODE_FAULT])
def test_a_job_that_no_machine_took_stands_where_it_stood(tmp_path: Path, reason: Reason) -> None:
    with open_ledger(tmp_path) as ledger:
        job, other = ledger.write_now(submit), ledger.write_now(submit)
        put(ledger, job, "first")
        assert pass_by(ledger, ledger.read_now(lambda c: queued(c, other)), job)
        ledger.write_now(lambda c: take(c, job))
        ledger.write_now(lambda c: apply(c, job, reason))
        assert ledger.read_now(lambda c: queued(c, job)).reason is reason
        assert counts(ledger, job) == (1, 1)


def test_what_a_start_passes_is_counted_with_it_until_it_starts_itself(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        first, second, third = (ledger.write_now(submit) for _ in range(3))
        seen = {job.id: job for job in ledger.read_now(list_queued)}
        assert pass_by(ledger, seen[second], first)
        assert not pass_by(ledger, seen[second], first), "it has started already"
        assert counts(ledger, first) == (0, 1)
        assert pass_by(ledger, seen[third], first)
        assert ledger.read_now(lambda c: queued(c, first)).passed == 2
        ledger.write_now(lambda c: take(c, first))
        ledger.write_now(lambda c: apply(c, first, Reason.LAUNCHED))
        assert counts(ledger, first) == (0, 0)


def pass_by(ledger: Database, job: QueuedJob, passed: JobId) -> bool:
    """Whether `job` started and passed the other one."""
    attempt = new_attempt_id(job.id, 1)
    new = NewAttempt(
        id=attempt,
        number=1,
        target=Target(fleet="local", node="n1", name=attempt),
        token_hash=attempt,
        token_expires_at=1e6,
        lease="me",
        lease_until=1e6,
    )
    return ledger.write_now(lambda c: dequeue(c, job, new, guard(), [passed])) is not None
