"""The statement of a quota adds up: each number is the sum of what the runs that it names add."""

from hypothesis import given
from hypothesis import strategies as st

from starforge_console.domain.gpu_hours import DAY_S, HOUR_S, Span, measure_all
from starforge_console.domain.quota import Holder, Limit, Member
from starforge_console.domain.statement import STEP_S, HeldRun, QuotaLine, RunUse, build_lines

ANN, BOB, EVE = 1, 2, 3
MEMBERS = {ANN: Member("ann", "ml"), BOB: Member("bob", "ml"), EVE: Member("eve", None)}
LIMITS = {Holder("user", "ann"): Limit(gpus=4), Holder("team", "ml"): Limit(), Holder("user", "eve"): Limit(jobs=1)}
NOW = 100 * DAY_S
USERS = st.sampled_from([ANN, BOB, EVE])
HELD = st.builds(HeldRun, USERS, st.uuids().map(str), st.integers(0, 8), st.booleans())


def lines(held: list[HeldRun], spans: list[Span]) -> dict[str, QuotaLine]:
    return {str(line.holder): line for line in build_lines(LIMITS, MEMBERS, held, spans, NOW)}


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


@given(
    held=st.lists(HELD, max_size=6),
    ended=st.lists(st.tuples(USERS, st.integers(1, 8), st.integers(0, 40), st.integers(0, 20)), max_size=6),
)
def test_every_number_is_the_sum_of_the_runs(held: list[HeldRun], ended: list[tuple[int, int, int, int]]) -> None:
    spans = [Span(run.user_id, run.job, run.gpus, NOW - 3 * HOUR_S) for run in held if run.gpus]
    spans += [
        Span(user, f"e{number}", gpus, NOW - (ago + lasts) * HOUR_S, NOW - ago * HOUR_S)
        for number, (user, gpus, ago, lasts) in enumerate(ended)
    ]
    for line in lines(held, spans).values():
        of_holder = [user for user, member in MEMBERS.items() if line.holder in member.holders]
        assert line.gpus == sum(run.gpus for run in held if run.user_id in of_holder)
        assert line.jobs == sum(run.user_id in of_holder for run in held)
        assert line.gpu_s == measure_all([span for span in spans if span.user_id in of_holder], NOW)
        assert len({run.job for run in line.runs}) == len(line.runs)
