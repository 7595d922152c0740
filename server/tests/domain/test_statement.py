"""The statement of a quota adds up: each number is the sum of what the runs that it names add."""

from hypothesis import given
from hypothesis import strategies as st

from starforge_console.domain.gpu_hours import DAY_S, HOUR_S, Span, measure_all
from starforge_console.domain.quota import Holder, Limit, Member
from starforge_console.domain.statement import STEP_S, Counted, HeldRun, QuotaLine, RunUse, build_lines

ANN, BOB, EVE = 1, 2, 3
MEMBERS = {ANN: Member("ann", "ml"), BOB: Member("bob", "ml"), EVE: Member("eve", None)}
LIMITS = {Holder("user", "ann"): Limit(gpus=4), Holder("team", "ml"): Limit(), Holder("user", "eve"): Limit(jobs=1)}
NOW = 100 * DAY_S
USERS = st.sampled_from([ANN, BOB, EVE])
HELD = st.builds(HeldRun, USERS, st.uuids().map(str), st.integers(0, 8), st.booleans())


def lines(
    held: list[HeldRun], spans: list[Span], stored: dict[tuple[int, str], int] | None = None
) -> dict[str, QuotaLine]:
    counted = Counted(held, spans, stored or {})
    return {str(line.holder): line for line in build_lines(LIMITS, MEMBERS, counted, NOW)}


def test_what_runs_and_what_has_ended_are_named_once_each() -> None:
    held = [HeldRun(ANN, "a", 2), HeldRun(BOB, "b", 8, is_silent=True)]
    spans = [
        Span(ANN, "a", 2, NOW - HOUR_S),
        Span(ANN, "a", 2, NOW - 9 * HOUR_S, NOW - 8 * HOUR_S),
        Span(ANN, "over", 1, NOW - 5 * HOUR_S, NOW - 4 * HOUR_S),
        Span(ANN, "long ago", 1, NOW - 50 * HOUR_S, NOW - 40 * HOUR_S),
        Span(BOB, "b", 8, NOW - 10.0),
    ]
    found = lines(held, spans)
    own = (RunUse("a", "ann", 2, 1, 4 * 3600), RunUse("over", "ann", 0, 0, 3600))
    assert found["user ann"].runs == own
    assert found["team ml"].runs == (RunUse("b", "bob", 8, 1, 2 * STEP_S, is_silent=True), *own)
    assert found["user eve"].runs == ()


def test_a_run_that_ended_long_ago_counts_with_what_it_still_stores_and_the_largest_part_comes_first() -> None:
    held = [HeldRun(ANN, "a", 0)]
    spans = [Span(ANN, "b", 1, NOW - 5 * HOUR_S, NOW - 4 * HOUR_S), Span(ANN, "c", 9, NOW - 5 * HOUR_S, NOW - HOUR_S)]
    found = lines(held, spans, {(ANN, "a"): 5, (ANN, "old"): 90, (ANN, "nothing"): 0, (EVE, "e"): 7})
    assert [(run.job, run.jobs, run.bytes) for run in found["user ann"].runs] == [
        ("a", 1, 5),
        ("c", 0, 0),
        ("old", 0, 90),
        ("b", 0, 0),
    ]
    assert {name: line.bytes for name, line in found.items()} == {"user ann": 95, "team ml": 95, "user eve": 7}


@given(
    held=st.lists(HELD, max_size=6),
    ended=st.lists(st.tuples(USERS, st.integers(1, 8), st.integers(0, 40), st.integers(0, 20)), max_size=6),
    stored=st.dictionaries(st.tuples(USERS, st.sampled_from(["e0", "e1", "x", "y"])), st.integers(0, 9), max_size=6),
)
def test_every_number_is_the_sum_of_the_runs(
    held: list[HeldRun], ended: list[tuple[int, int, int, int]], stored: dict[tuple[int, str], int]
) -> None:
    spans = [Span(run.user_id, run.job, run.gpus, NOW - 3 * HOUR_S) for run in held if run.gpus]
    spans += [
        Span(user, f"e{number}", gpus, NOW - (ago + lasts) * HOUR_S, NOW - ago * HOUR_S)
        for number, (user, gpus, ago, lasts) in enumerate(ended)
    ]
    for line in lines(held, spans, stored).values():
        of_holder = [user for user, member in MEMBERS.items() if line.holder in member.holders]
        assert line.gpus == sum(run.gpus for run in held if run.user_id in of_holder)
        assert line.jobs == sum(run.user_id in of_holder for run in held)
        assert line.gpu_s == measure_all([span for span in spans if span.user_id in of_holder], NOW)
        assert line.bytes == sum(count for (user, _), count in stored.items() if user in of_holder)
        assert len({(run.user, run.job) for run in line.runs}) == len(line.runs)
