"""Fair share in the ledger: what an attempt held is charged once, and one order is kept for scheduler and pages."""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, insert, select

from server.tests.ledger.builders import apply, guard, in_flight, open_ledger, submit, take, wish_stop
from starforge.contract.ids import JobId
from starforge.contract.states import Reason
from starforge_console.domain.order import order_queue
from starforge_console.domain.reconcile import Move
from starforge_console.ledger.accounts import find_user
from starforge_console.ledger.apply import apply_move
from starforge_console.ledger.database import Database
from starforge_console.ledger.queue import list_queued
from starforge_console.ledger.queue_order import find_place, list_places
from starforge_console.ledger.quotas import set_team
from starforge_console.ledger.share_tables import shares
from starforge_console.ledger.shares import load_order, refresh_order
from starforge_console.ledger.wishes import wish_retry

LAUNCHED = (Reason.LAUNCHED, Reason.STARTED)
VALUES = st.sampled_from([0.0, 0.5, 7.0, 1e9])


def used(ledger: Database, user: str = "ada") -> float:
    """GPU-seconds that the user's ended attempts have used."""
    mine = select(shares.c.gpu_s).where(shares.c.user_id == ledger.read_now(lambda c: find_user(c, user)))
    return ledger.read_now(lambda c: c.execute(mine).scalar()) or 0.0


def begin(ledger: Database, *, gpus: int = 2, user: str = "ada") -> JobId:
    """A job that runs since second 10."""
    job = ledger.write_now(lambda c: submit(c, gpus=gpus, user=user))
    ledger.write_now(lambda c: take(c, job))
    ledger.write_now(lambda c: apply(c, job, *LAUNCHED, now=20.0))
    return job


def end(ledger: Database, job: JobId, reason: Reason, now: float, held_until: float | None = None) -> None:
    decision = Move(reasons=(reason,), held_until=held_until)
    ledger.write_now(lambda c: apply_move(c, in_flight(c, job), decision, guard(now)))


def test_an_attempt_is_charged_for_its_gpus_from_its_dequeue_to_its_end(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        job = begin(ledger)
        assert used(ledger) == 0.0
        end(ledger, job, Reason.EXITED_ZERO, 110.0)
        assert used(ledger) == pytest.approx(2 * 100.0, rel=1e-3)


def test_what_ended_before_the_console_noticed_is_charged_until_it_ended(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        end(ledger, begin(ledger), Reason.EXITED_ZERO, 1000.0, held_until=60.0)
        assert used(ledger) == pytest.approx(2 * 50.0, rel=1e-3)


@pytest.mark.parametrize(("told", "charged_s"), [(5000.0, 100.0), (0.0, 0.0)])
def test_a_machine_whose_clock_is_wrong_is_believed_within_what_the_console_knows(
    tmp_path: Path, told: float, charged_s: float
) -> None:
    with open_ledger(tmp_path) as ledger:
        end(ledger, begin(ledger), Reason.EXITED_ZERO, 110.0, held_until=told)
        assert used(ledger) == pytest.approx(2 * charged_s, rel=1e-3)


def test_each_attempt_of_a_job_is_charged_once_and_its_waiting_not_at_all(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        job = begin(ledger)
        end(ledger, job, Reason.EXITED_NONZERO, 110.0)
        ledger.write_now(lambda c: wish_retry(c, job, 0, guard(500.0), "again"))
        assert used(ledger) == pytest.approx(2 * 100.0, rel=1e-3)
        ledger.write_now(lambda c: take(c, job, now=600.0))
        ledger.write_now(lambda c: apply(c, job, *LAUNCHED, now=610.0))
        end(ledger, job, Reason.EXITED_ZERO, 650.0)
        assert used(ledger) == pytest.approx(2 * 150.0, rel=1e-2)


def test_a_job_that_was_stopped_in_the_queue_or_that_holds_no_gpu_is_charged_nothing(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        waits = ledger.write_now(submit)
        ledger.write_now(lambda c: wish_stop(c, waits, None, guard(500.0, None)))
        end(ledger, begin(ledger, gpus=0), Reason.EXITED_ZERO, 1000.0)
        assert used(ledger) == 0.0


def test_what_runs_counts_too_and_for_the_whole_team(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        begin(ledger, user="ada")
        ledger.write_now(lambda c: submit(c, user="bob"))
        ada, bob = _join(ledger, "ada"), _join(ledger, "bob")
        ledger.write_now(lambda c: refresh_order(c, 60.0))
        kept = ledger.read_now(load_order)
        assert kept.at == 60.0
        assert [*kept.shares[ada], *kept.shares[bob]] == pytest.approx([100.0, 100.0, 100.0, 0.0], rel=1e-3)


def test_the_order_is_looked_at_once_a_minute_and_when_the_clock_was_set_back(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        assert ledger.read_now(load_order).is_due(100.0)
        begin(ledger)
        ledger.write_now(lambda c: refresh_order(c, 100.0))
        kept = ledger.read_now(load_order)
        assert [kept.is_due(now) for now in (99.0, 100.0, 159.0, 160.0)] == [True, False, False, True]


@given(st.lists(st.tuples(VALUES, VALUES), max_size=4), st.randoms(use_true_random=False))
def test_the_pages_tell_the_order_in_which_the_scheduler_places(
    tmp_path_factory: pytest.TempPathFactory, orders: list[tuple[float, float]], chance: random.Random
) -> None:
    with open_ledger(tmp_path_factory.mktemp("ledger")) as ledger:
        ledger.write_now(lambda c: _fill(c, orders, chance))
        kept = ledger.read_now(load_order).shares
        placed = [job.id for job in order_queue(ledger.read_now(list_queued), kept)]
        assert [place.job for place in ledger.read_now(lambda c: list_places(c, 100))] == placed
        found = ledger.read_now(lambda c: [find_place(c, job) for job in placed])
        assert found == list(range(1, len(placed) + 1))


def _join(ledger: Database, name: str) -> int:
    """The user's id, as a member of team vision."""
    user = ledger.read_now(lambda c: find_user(c, name))
    assert user is not None
    ledger.write_now(lambda c: set_team(c, user, "vision"))
    return user


def _fill(connection: Connection, orders: list[tuple[float, float]], chance: random.Random) -> None:
    """Twelve queued jobs of five users, of whom those of `orders` have used something."""
    names = [f"user{number}" for number in range(5)]
    for number in range(12):
        now = float(number // 3)
        submit(connection, now=now, user=names[number % 5], priority=chance.choice([-1, 0, 0, 1]))
    for name, (team, user) in zip(names, orders, strict=False):
        values = {"team_order": team, "user_order": user, "ordered_at": 5.0}
        user_id = find_user(connection, name)
        connection.execute(insert(shares), {"user_id": user_id, "gpu_s": 0.0, "at": 0.0, **values})
