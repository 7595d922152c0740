"""GPU-hours of the last 24 hours: what counts, and when there is room again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from starforge_console.domain.gpu_hours import DAY_S, HOUR_S, Span, find_room_at, measure, measure_all

NOW = 100 * DAY_S
GPUS = st.integers(1, 8)


def span(gpus: int, since_h: float, until_h: float | None = None, user: int = 1) -> Span:
    """Held from so many hours before NOW until so many before it; None: still."""
    until = None if until_h is None else NOW - until_h * HOUR_S
    return Span(user, "job", gpus, NOW - since_h * HOUR_S, until)


@st.composite
def spans(draw: st.DrawFn) -> list[Span]:
    found = []
    for _ in range(draw(st.integers(0, 6))):
        until_h = draw(st.none() | st.integers(0, 47))
        since_h = draw(st.integers(until_h or 0, 48))
        found.append(span(draw(GPUS), since_h, until_h))
    return found


@pytest.mark.parametrize(
    ("held", "hours"),
    [
        (span(2, 3, 1), 4),
        (span(2, 3), 6),
        (span(2, 30, 20), 8),
        (span(2, 30), 48),
        (span(2, 40, 24), 0),
        (span(2, -1), 0),
        (span(2, 1, -5), 2),
    ],
)
def test_what_was_held_counts_as_far_as_it_lies_in_the_last_24_hours(held: Span, hours: float) -> None:
    assert measure(held, NOW) == hours * HOUR_S


@pytest.mark.parametrize(
    ("held", "most_h", "room_in_h"),
    [
        ([span(1, 10, 4)], 7, 0),
        ([span(1, 10, 4)], 6, 14),
        ([span(1, 10, 4)], 5, 15),
        ([span(2, 23, 17)], 11, 1.5),
        ([span(1, 20)], 10, None),
        ([span(1, 20), span(8, 23, 20)], 30, 1 + 15 / 7),
        ([span(1, 48)], 23, None),
    ],
)
def test_room_comes_as_what_was_held_a_day_ago_runs_out(
    held: list[Span], most_h: float, room_in_h: float | None
) -> None:
    at = find_room_at(held, most_h * HOUR_S, NOW)
    assert at == (None if room_in_h is None else pytest.approx(NOW + room_in_h * HOUR_S))


@given(held=spans(), most_h=st.integers(1, 200))
def test_there_is_room_at_the_moment_that_is_told_and_not_before(held: list[Span], most_h: int) -> None:
    most_s = most_h * HOUR_S
    at = find_room_at(held, most_s, NOW)
    minutes = [NOW + 600.0 * count for count in range(int(DAY_S // 600) + 1)]
    before = minutes if at is None else [minute for minute in minutes if minute < at - 1.0]
    assert all(measure_all(held, minute) >= most_s for minute in before)
    if at is not None:
        assert NOW <= at <= NOW + DAY_S
        assert measure_all(held, at + 1.0) < most_s


@given(held=spans())
def test_of_what_has_ended_everything_comes_back_within_a_day(held: list[Span]) -> None:
    ended = [one for one in held if one.until is not None]
    assert find_room_at(ended, 1.0, NOW) is not None
