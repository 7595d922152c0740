"""GPU-hours in the ledger: kept as attempts end, given back as their ends become known, and forgotten after a day."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import update

from server.tests.databases import empty_place, place_of
from server.tests.ledger.builders import apply, guard, in_flight, open_ledger, queued, submit, take, wish_stop
from server.tests.ledger.older import copy_older
from starforge.contract.ids import JobId
from starforge.contract.states import Reason
from starforge.said.sentence import say
from starforge_console.domain.gpu_hours import DAY_S, HOUR_S, Span, measure_all
from starforge_console.domain.quota import Holder
from starforge_console.domain.reconcile import Move
from starforge_console.ledger.accounts import find_user
from starforge_console.ledger.apply import apply_move, ref_of
from starforge_console.ledger.database import Database
from starforge_console.ledger.in_flight import note_progress
from starforge_console.ledger.jobs import delete_job
from starforge_console.ledger.quotas import change_parts, list_members, list_spans, load_usage, set_team
from starforge_console.ledger.share_tables import gpu_spans
from starforge_console.ledger.statements import list_own
from starforge_console.ledger.tables import attempts

ADA = 1


def begin(ledger: Database, *, now: float = 10.0, gpus: int = 2, user: str = "ada") -> JobId:
    job = ledger.write_now(lambda c: submit(c, gpus=gpus, user=user))
    ledger.write_now(lambda c: take(c, job, now=now))
    ledger.write_now(lambda c: apply(c, job, Reason.LAUNCHED, Reason.STARTED, now=now + 1.0))
    return job


def end(ledger: Database, job: JobId, now: float, held_until: float | None = None) -> None:
    move = Move(reasons=(Reason.EXITED_ZERO,), held_until=held_until)
    ledger.write_now(lambda c: apply_move(c, in_flight(c, job), move, guard(now)))


def spans(ledger: Database, now: float) -> list[Span]:
    return ledger.read_now(lambda c: list_spans(c, [ADA], now))


def gpu_s(ledger: Database, now: float) -> int:
    return ledger.read_now(lambda c: list_own(c, ADA, now))[0].gpu_s


def test_what_runs_and_what_has_ended_of_the_last_day_is_told(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        runs, over = begin(ledger), begin(ledger, gpus=4)
        begin(ledger, gpus=0)
        end(ledger, over, 110.0)
        assert spans(ledger, 200.0) == [Span(ADA, over, 4, 10.0, 110.0), Span(ADA, runs, 2, 10.0)]
        assert spans(ledger, 110.0 + DAY_S) == [Span(ADA, runs, 2, 10.0)]
        assert ledger.read_now(lambda c: list_spans(c, [ADA + 1], 200.0)) == []


def test_hours_accrue_while_nobody_answers_are_marked_and_are_given_back_by_the_record_of_an_earlier_end(
    tmp_path: Path,
) -> None:
    with open_ledger(tmp_path) as ledger:
        job = begin(ledger)
        silent = say("note.waiting", node="n1", why="timed out")
        ledger.write_now(lambda c: note_progress(c, ref_of(in_flight(c, job)), silent))
        (run,) = ledger.read_now(lambda c: list_own(c, ADA, 10.0 + 36_000.0))[0].runs
        assert (run.gpu_s, run.is_silent) == (72_000, True)
        end(ledger, job, 50_000.0, held_until=10.0 + 1800.0)
        (run,) = ledger.read_now(lambda c: list_own(c, ADA, 50_000.0))[0].runs
        assert (run.gpus, run.jobs, run.gpu_s, run.is_silent) == (0, 0, 3600, False)


def test_a_stop_that_is_only_wished_frees_nothing(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        job = begin(ledger)
        ledger.write_now(lambda c: wish_stop(c, job, 30.0, guard(100.0, None)))
        line = ledger.read_now(lambda c: list_own(c, ADA, 10.0 + 3600.0))[0]
        assert (line.gpus, line.jobs, line.gpu_s) == (2, 1, 7200)


def test_a_queued_job_counts_for_nothing_and_a_deleted_one_keeps_its_hours(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        job = begin(ledger)
        ledger.write_now(submit)
        end(ledger, job, 10.0 + 3600.0)
        ledger.write_now(lambda c: c.execute(update(attempts).values(cleaned_at=4000.0)))
        ledger.write_now(lambda c: delete_job(c, job))
        line = ledger.read_now(lambda c: list_own(c, ADA, 5000.0))[0]
        assert ([run.job for run in line.runs], line.jobs, line.gpu_s) == ([job], 0, 7200)


def test_what_ended_more_than_a_day_before_is_cleared_as_the_next_attempt_ends(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        ends = (100.0, 200.0, 150.0 + DAY_S)
        for at in ends:
            end(ledger, begin(ledger, now=at - 50.0), at)
        kept = ledger.read_now(lambda c: c.execute(gpu_spans.select()).all())
        assert sorted(row.until for row in kept) == [200.0, 150.0 + DAY_S]


@pytest.mark.parametrize("holder", [Holder("user", "ada"), Holder("team", "ml")])
def test_a_limit_of_hours_holds_those_alone_whom_it_binds(tmp_path: Path, holder: Holder) -> None:
    with open_ledger(tmp_path) as ledger:
        job = begin(ledger)
        ledger.write_now(lambda c: change_parts(c, holder, {"gpu_hours": 1}))
        pools = ledger.read_now(lambda c: in_flight(c, job)).pools
        for user_id in (None, ADA):
            usage = ledger.read_now(lambda c: load_usage(c, 10_000.0, user_id))  # noqa: B023 - called at once
            assert bool(usage.find_holds(ADA, pools)) == (holder.kind == "user")


@given(
    held=st.lists(st.tuples(st.sampled_from(["ada", "bob"]), st.integers(1, 4), st.integers(0, 40)), max_size=5),
    most=st.integers(1, 60),
    lasts_h=st.integers(0, 12),
)
@settings(max_examples=25, deadline=None)
def test_a_limit_of_hours_holds_exactly_when_the_spans_reach_it(
    tmp_path_factory: pytest.TempPathFactory, held: list[tuple[str, int, int]], most: int, lasts_h: int
) -> None:
    now = 50 * HOUR_S
    with open_ledger(tmp_path_factory.mktemp("ledger")) as ledger:
        waits = ledger.write_now(submit)
        for number, (user, gpus, ago_h) in enumerate(held):
            since = now - ago_h * HOUR_S
            job = begin(ledger, now=since, gpus=gpus, user=user)
            if number % 2:
                end(ledger, job, min(now, since + lasts_h * HOUR_S))
        ids = list(ledger.read_now(list_members))
        for member in ids:
            ledger.write_now(lambda c: set_team(c, member, "ml"))  # noqa: B023 - called at once
        ledger.write_now(lambda c: change_parts(c, Holder("team", "ml"), {"gpu_hours": most}))
        pools = ledger.read_now(lambda c: queued(c, waits)).pools
        all_spans = ledger.read_now(lambda c: list_spans(c, ids, now))
        for user_id in (None, ADA):
            usage = ledger.read_now(lambda c: load_usage(c, now, user_id))  # noqa: B023 - called at once
            assert bool(usage.find_holds(ADA, pools)) == (measure_all(all_spans, now) >= most * HOUR_S)


def test_the_attempts_of_an_older_ledger_count_until_their_noticed_ends(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        ancient, over, runs = (begin(ledger, now=at) for at in (10.0, 2 * DAY_S, 2 * DAY_S + 50.0))
        ledger.write_now(lambda c: change_parts(c, Holder("user", "ada"), {"gpus": 8}))
        end(ledger, ancient, 20.0)
        end(ledger, over, 2 * DAY_S + 100.0)
        end(ledger, begin(ledger, gpus=0), 2 * DAY_S + 200.0)
    older = tmp_path / "older"
    older.mkdir()
    copy_older(place_of(tmp_path / "ledger.db"), empty_place(older / "ledger.db"), "ledger", "0023")
    with open_ledger(older) as ledger:
        at = 2 * DAY_S + 300.0
        assert spans(ledger, at) == [
            Span(ADA, over, 2, 2 * DAY_S, 2 * DAY_S + 100.0),
            Span(ADA, runs, 2, 2 * DAY_S + 50.0),
        ]
        assert ledger.read_now(lambda c: find_user(c, "ada")) == ADA
        assert ledger.read_now(lambda c: list_own(c, ADA, at))[0].limit.gpus == 8
