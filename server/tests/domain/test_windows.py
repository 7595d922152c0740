"""When windows are open: compared minute by minute with the clocks of their zones, and what follows from that."""

from bisect import bisect_left
from datetime import UTC, date, datetime, timedelta
from itertools import accumulate, pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from starforge_console.domain.window_syntax import parse_window
from starforge_console.domain.windows import (
    DAY_S,
    Edge,
    EdgeKind,
    OpenSpan,
    Span,
    WeekSpan,
    Window,
    build_spans,
    find_close,
    find_span,
    find_start,
    is_open,
    list_edges,
)

AROUND = {
    "Europe/Berlin": ("2026-03-29", "2026-10-25"),
    "America/New_York": ("2026-03-08", "2026-11-01"),
    "Australia/Lord_Howe": ("2026-04-05", "2026-10-04"),
    "Pacific/Chatham": ("2026-04-05", "2026-09-27"),
    "Pacific/Apia": ("2011-12-30", "2011-09-24"),
    "Asia/Kolkata": ("2026-05-01",),
    "Asia/Kathmandu": ("2026-05-01",),
    "America/St_Johns": ("2026-03-08", "2026-11-01"),
    "UTC": ("2026-02-28",),
}
"""Zones, with days on which something is odd: an hour, half an hour or a day more or less."""

week_spans = st.builds(
    WeekSpan,
    days=st.frozensets(st.integers(0, 6), min_size=1),
    start_minute=st.one_of(st.integers(0, 1439), st.integers(0, 240)),
    end_minute=st.one_of(st.integers(0, 1440), st.integers(0, 240)),
).filter(lambda span: span.start_minute != span.end_minute)


@st.composite
def windows_on_odd_days(draw: st.DrawFn) -> tuple[Window, int]:
    """A window, and the midnight (UTC) of a day about an odd one of its zone."""
    zone = draw(st.sampled_from(sorted(AROUND)))
    odd = date.fromisoformat(draw(st.sampled_from(AROUND[zone])))
    without = draw(st.frozensets(st.integers(-2, 2), max_size=2))
    window = Window(
        zone=zone,
        open=tuple(draw(st.lists(week_spans, min_size=1, max_size=3))),
        without=frozenset(odd + timedelta(days=days) for days in without),
    )
    return window, _midnight(odd + timedelta(days=draw(st.integers(-1, 1))))


def _midnight(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())


def _at(text: str, zone: str = "Europe/Berlin") -> int:
    """The instant of a local time; `+02:00` behind it says which one of two."""
    local = datetime.fromisoformat(text)
    return int((local if local.tzinfo else local.replace(tzinfo=ZoneInfo(zone))).timestamp())


def _text(at: int, zone: str = "Europe/Berlin") -> str:
    return datetime.fromtimestamp(at, ZoneInfo(zone)).isoformat(timespec="minutes")


class _Clock:
    """The clocks of a zone, read every minute for some days; the latest that they have shown so far, in minutes."""

    def __init__(self, zone: str, around: int) -> None:
        self.first = around - 6 * DAY_S
        where = ZoneInfo(zone)
        shown = (
            datetime.fromtimestamp(second, where).replace(tzinfo=UTC).timestamp()
            for second in range(self.first, around + 8 * DAY_S, 60)
        )
        self.shown = list(accumulate(shown, max))

    def find(self, day: date, minute: int) -> int:
        """The first minute at which they show that time, or a later one."""
        return self.first + 60 * bisect_left(self.shown, _midnight(day) + 60 * minute)


def _ask_every_minute(window: Window, from_s: int, to_s: int) -> list[bool]:
    clock, opened = _Clock(window.zone, from_s), []
    nearby = [datetime.fromtimestamp(from_s, UTC).date() + timedelta(days=ahead) for ahead in range(-4, 7)]
    for day in nearby:
        for span in window.open:
            if day.weekday() in span.days and day not in window.without:
                over = span.end_minute <= span.start_minute
                end = clock.find(day + timedelta(days=1) if over else day, span.end_minute)
                opened.append((clock.find(day, span.start_minute), end))
    return [any(start <= minute < end for start, end in opened) for minute in range(from_s, to_s, 60)]


@settings(max_examples=150, deadline=None)
@given(windows_on_odd_days())
def test_spans_are_what_the_clocks_of_the_zone_show_minute_by_minute(found: tuple[Window, int]) -> None:
    window, from_s = found
    to_s = from_s + 2 * DAY_S
    spans = build_spans([window], from_s, to_s)
    told = [any(span.opens <= minute < span.closes for span in spans) for minute in range(from_s, to_s, 60)]
    assert told == _ask_every_minute(window, from_s, to_s)
    assert all(left.closes < right.opens for left, right in pairwise(spans))
    assert all(from_s <= span.opens < span.closes <= to_s for span in spans)


@settings(max_examples=60, deadline=None)
@given(st.lists(windows_on_odd_days(), min_size=2, max_size=3), st.integers(0, 2 * 1440))
def test_several_windows_are_open_where_each_of_them_is(found: list[tuple[Window, int]], minute: int) -> None:
    windows, from_s = [window for window, _ in found], found[0][1]
    at = from_s + 60 * minute
    assert is_open(windows, at) == all(is_open([window], at) for window in windows)
    spans = build_spans(windows, from_s, from_s + 2 * DAY_S)
    assert any(span.opens <= at < span.closes for span in spans) == is_open(windows, at) or minute == 2 * 1440


@settings(max_examples=80, deadline=None)
@given(windows_on_odd_days(), st.integers(0, 2 * DAY_S))
def test_edges_alternate_and_each_is_where_the_window_changes(found: tuple[Window, int], second: int) -> None:
    window, from_s = found
    at = from_s + second
    edges = list_edges([window], at, 6)
    assert [edge.at for edge in edges] == sorted({edge.at for edge in edges})
    expected = is_open([window], at)
    for edge in edges:
        assert edge.at > at
        assert is_open([window], edge.at - 1) is expected
        expected = edge.kind is EdgeKind.OPENS
        assert is_open([window], edge.at) is expected


@settings(max_examples=80, deadline=None)
@given(windows_on_odd_days(), st.integers(0, 2 * DAY_S), st.integers(0, 6 * 3600))
def test_the_next_start_is_the_first_second_before_whose_closing_a_job_can_begin(
    found: tuple[Window, int], second: int, grace_s: int
) -> None:
    window, from_s = found
    at = from_s + second
    start = find_start([window], at, grace_s)
    long_enough = [span for span in build_spans([window], at, at + 30 * DAY_S) if span.closes - span.opens > grace_s]
    if start is None:
        assert not long_enough
        return
    closes = find_close([window], start)
    assert is_open([window], start)
    assert closes is None or start < closes - grace_s
    assert not long_enough or start == long_enough[0].opens


@settings(max_examples=60, deadline=None)
@given(windows_on_odd_days(), st.integers(0, 2 * DAY_S))
def test_the_open_span_begins_and_ends_with_the_edges_about_it(found: tuple[Window, int], second: int) -> None:
    window, from_s = found
    at = from_s + second
    span = find_span([window], at)
    assert (span is not None) == is_open([window], at)
    if span is None:
        return
    if span.opens is not None:
        assert span.opens <= at
        assert not is_open([window], span.opens - 1)
    if span.closes is not None:
        assert list_edges([window], at, 1) == [Edge(span.closes, EdgeKind.CLOSES)]
        assert build_spans([window], at, span.closes) == [Span(at, span.closes)]


def test_the_end_of_a_span_belongs_to_the_day_on_which_it_starts() -> None:
    nights = parse_window("Europe/Berlin", ["fri 20:00-08:00"])
    assert is_open([nights], _at("2026-07-04T07:59"))  # a Saturday
    assert not is_open([nights], _at("2026-07-04T08:00"))
    assert not is_open([nights], _at("2026-07-03T07:59"))


def test_a_date_that_is_left_out_takes_the_spans_that_start_on_it_and_no_others() -> None:
    nights = parse_window("Europe/Berlin", ["mon-sun 20:00-08:00"], ["2026-12-24"])
    assert is_open([nights], _at("2026-12-24T07:00")), "it started the day before"
    assert not is_open([nights], _at("2026-12-24T21:00"))
    assert not is_open([nights], _at("2026-12-25T07:00"))
    assert is_open([nights], _at("2026-12-25T20:00"))


def test_a_start_that_does_not_exist_is_when_the_clocks_are_put_forward() -> None:
    window = parse_window("Europe/Berlin", ["sun 02:30-05:00"])
    assert list_edges([window], _at("2026-03-29T00:00"), 2) == [
        Edge(_at("2026-03-29T03:00"), EdgeKind.OPENS),
        Edge(_at("2026-03-29T05:00"), EdgeKind.CLOSES),
    ]


def test_a_span_within_the_gap_of_the_clocks_is_none() -> None:
    window = parse_window("Europe/Berlin", ["sun 02:10-02:50"])
    assert _text(list_edges([window], _at("2026-03-29T00:00"), 1)[0].at) == "2026-04-05T02:10+02:00"


def test_a_time_that_exists_twice_is_the_first_of_the_two() -> None:
    opening = parse_window("Europe/Berlin", ["sun 02:30-05:00"])
    assert _text(list_edges([opening], _at("2026-10-25T00:00"), 1)[0].at) == "2026-10-25T02:30+02:00"
    closing = parse_window("Europe/Berlin", ["sun 00:00-02:30"])
    assert _text(list_edges([closing], _at("2026-10-25T00:30"), 1)[0].at) == "2026-10-25T02:30+02:00"
    assert not is_open([closing], _at("2026-10-25T02:15+01:00")), "the second quarter past two"


def test_lord_howe_puts_its_clocks_forward_by_half_an_hour() -> None:
    window = parse_window("Australia/Lord_Howe", ["sun 02:10-03:00"])
    edges = list_edges([window], _at("2026-10-04T00:00", "Australia/Lord_Howe"), 2)
    assert [_text(edge.at, "Australia/Lord_Howe") for edge in edges] == [
        "2026-10-04T02:30+11:00",
        "2026-10-04T03:00+11:00",
    ]


def test_a_day_that_a_zone_skipped_has_no_span_of_its_own() -> None:
    zone = "Pacific/Apia"  # went from the 29th to the 31st of December 2011
    fridays = parse_window(zone, ["fri 08:00-20:00"])
    assert _text(list_edges([fridays], _at("2011-12-29T00:00", zone), 1)[0].at, zone) == "2012-01-06T08:00+14:00"
    nights = parse_window(zone, ["fri 20:00-08:00"])
    edges = list_edges([nights], _at("2011-12-29T00:00", zone), 2)
    assert [_text(edge.at, zone) for edge in edges] == ["2011-12-31T00:00+14:00", "2011-12-31T08:00+14:00"]


def test_spans_that_touch_are_one_also_over_the_end_of_the_week() -> None:
    window = parse_window("Asia/Kathmandu", ["sat,sun 00:00-24:00", "mon 00:00-06:00", "fri 20:00-24:00"])
    at = _at("2026-07-05T12:00", "Asia/Kathmandu")
    assert find_span([window], at) == OpenSpan(
        _at("2026-07-03T20:00", "Asia/Kathmandu"), _at("2026-07-06T06:00", "Asia/Kathmandu")
    )


def test_a_window_that_is_always_open_has_no_edges() -> None:
    always = parse_window("Europe/Berlin", ["mon-sun 00:00-24:00"])
    at = _at("2026-07-05T12:00")
    assert list_edges([always], at, 10) == []
    assert find_span([always], at) == OpenSpan(None, None)
    assert find_start([always], at, DAY_S) == at


def test_no_window_at_all_is_always_open() -> None:
    at = _at("2026-07-05T12:00")
    assert is_open([], at)
    assert list_edges([], at, 10) == []
    assert find_start([], at + 0.5, 60) == at + 0.5
    assert find_close([], at) is None


def test_an_always_open_window_with_one_date_left_out_has_two_edges() -> None:
    window = parse_window("Europe/Berlin", ["mon-sun 00:00-24:00"], ["2026-12-24"])
    assert list_edges([window], _at("2026-07-05T12:00"), 10) == [
        Edge(_at("2026-12-24T00:00"), EdgeKind.CLOSES),
        Edge(_at("2026-12-25T00:00"), EdgeKind.OPENS),
    ]


def test_windows_that_are_never_open_together_have_no_next_start() -> None:
    left = parse_window("Europe/Berlin", ["mon-fri 20:00-08:00"])
    right = parse_window("Europe/Berlin", ["mon-fri 09:00-17:00"])
    at = _at("2026-07-05T12:00")
    assert find_start([left], at, 60) is not None
    assert find_start([left, right], at, 60) is None
    assert list_edges([left, right], at, 1) == []


def test_a_window_that_is_shorter_than_the_grace_has_no_next_start() -> None:
    short = parse_window("Europe/Berlin", ["mon-fri 20:00-20:05"])
    assert find_start([short], _at("2026-07-06T20:00"), 300) is None
    assert find_start([short], _at("2026-07-06T20:00"), 299) == _at("2026-07-06T20:00")


def test_what_lies_further_ahead_than_is_looked_is_not_told() -> None:
    at = _at("2026-07-05T12:00")
    days = [(date(2026, 7, 1) + timedelta(days=ahead)).isoformat() for ahead in range(400)]
    window = parse_window("Europe/Berlin", ["mon-sun 00:00-24:00"], days)
    assert find_start([window], at, 60) == _at("2027-08-05T00:00")
    assert find_start([window], _at("2026-07-01T00:00") - DAY_S, 60) == _at("2026-06-30T00:00")
    assert find_start([window], _at("2026-07-01T00:00"), 60) is None, "it is just as far off as is looked"


@pytest.mark.parametrize("zone", sorted(AROUND))
def test_every_zone_opens_at_its_own_eight_o_clock(zone: str) -> None:
    window = parse_window(zone, ["mon-sun 08:00-20:00"])
    at = _at("2026-07-05T00:00", zone)
    opens, closes = list_edges([window], at, 2)
    assert (_text(opens.at, zone)[11:16], _text(closes.at, zone)[11:16]) == ("08:00", "20:00")
