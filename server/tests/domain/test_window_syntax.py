"""How windows are written, and what is said of what is no window."""

import time
from datetime import date
from zoneinfo import available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from starforge.errors import InputError
from starforge_console.domain.window_syntax import (
    MOST_DATES,
    MOST_SPANS,
    find_zone,
    knows_zone,
    parse_span,
    parse_window,
    write_span,
)
from starforge_console.domain.windows import WeekSpan, Window

week_spans = st.builds(
    WeekSpan,
    days=st.frozensets(st.integers(0, 6), min_size=1),
    start_minute=st.integers(0, 1439),
    end_minute=st.integers(0, 1440),
).filter(lambda span: span.start_minute != span.end_minute)


def test_days_hours_zone_and_dates_are_read() -> None:
    window = parse_window("Europe/Berlin", ["mon-fri 20:00-08:00", "Sat,SUN 00:00-24:00"], ["2026-12-24"])
    assert window == Window(
        zone="Europe/Berlin",
        open=(
            WeekSpan(days=frozenset({0, 1, 2, 3, 4}), start_minute=1200, end_minute=480),
            WeekSpan(days=frozenset({5, 6}), start_minute=0, end_minute=1440),
        ),
        without=frozenset({date(2026, 12, 24)}),
    )


def test_a_range_of_days_may_go_over_the_end_of_the_week() -> None:
    assert parse_span("sun-tue 01:00-02:00").days == {6, 0, 1}
    assert parse_span("fri-mon,wed 01:00-02:00").days == {4, 5, 6, 0, 2}
    assert parse_span("mon-mon 01:00-02:00").days == {0}


@given(week_spans)
def test_what_is_written_is_read_again(span: WeekSpan) -> None:
    assert parse_span(write_span(span)) == span


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("mon-fri 20:00-08:00", "mon-fri 20:00-08:00"),
        ("sat,sun 00:00-24:00", "sat,sun 00:00-24:00"),
        ("mon,tue,wed,thu,fri,sat,sun 00:00-24:00", "mon-sun 00:00-24:00"),
        ("fri-mon 00:00-24:00", "fri-mon 00:00-24:00"),
        ("sun,mon,wed 00:00-24:00", "wed,sun,mon 00:00-24:00"),
    ],
)
def test_a_span_is_shown_shortly(text: str, shown: str) -> None:
    assert write_span(parse_span(text)) == shown


@pytest.mark.parametrize(
    ("text", "at", "why"),
    [
        ("", "'' at column 1", "its days, one space, and its hours"),
        ("mon-fri", "'' at column 8", "its days, one space, and its hours"),
        ("mon - fri 20:00-08:00", "'fri' at column 7", "there is none within days or hours"),
        ("mon-fry 20:00-08:00", "'fry' at column 5", "no day of the week"),
        ("mon, 20:00-08:00", "'' at column 5", "no day of the week"),
        ("mon-tue-wed 20:00-08:00", "'mon-tue-wed' at column 1", "a first and a last one"),
        ("mon 20:00", "'20:00' at column 5", "its start and its end"),
        ("mon 8:00-20:00", "'8:00' at column 5", "no time of day"),
        ("mon 08:00-24:01", "'24:01' at column 11", "no such time of day"),
        ("mon 08:60-20:00", "'08:60' at column 5", "no such time of day"),
        ("mon \u06608:00-20:00", "'\u06608:00' at column 5", "no time of day"),
        ("mon 24:00-08:00", "'24:00' at column 5", "no span starts there"),
        ("mon 08:00-08:00", "'08:00-08:00' at column 5", "never open"),
        ("mon 00:00-00:00", "'00:00-00:00' at column 5", "never open"),
    ],
)
def test_what_is_no_span_is_refused_with_the_place_and_the_way_out(text: str, at: str, why: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_span(text)
    assert at in refused.value.what
    assert why in refused.value.why
    assert refused.value.next_step


def test_a_zone_that_does_not_exist_is_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match="Europe/Berlin"):
        parse_window("Europe/Berln", ["mon 08:00-20:00"])
    for zone in ("", "/etc/passwd", "../UTC", "Europe", "europe/berlin\0"):
        with pytest.raises(InputError, match="no time zone"):
            parse_window(zone, ["mon 08:00-20:00"])


@pytest.mark.parametrize("name", ["localtime", "Factory", "posixrules"])
def test_what_stands_among_the_tables_and_is_no_place_is_no_zone(name: str) -> None:
    assert not knows_zone(name)
    with pytest.raises(InputError, match="no time zone"):
        find_zone(name)


def test_to_know_every_zone_again_costs_less_than_walking_through_the_tables_for_each() -> None:
    """Each pass of the queue asks it of the zones of all windows."""
    began = time.perf_counter()
    names = sorted(available_timezones() - {"localtime", "Factory"})
    walk_s = time.perf_counter() - began
    assert all(map(knows_zone, names))
    began = time.perf_counter()
    assert all(map(knows_zone, names))
    assert time.perf_counter() - began < len(names) / 10 * walk_s


@pytest.mark.parametrize("text", ["2026-2-1", "2026-02-30", "24.12.2026", "20261224", "", "2026-12-24T00:00"])
def test_what_is_no_date_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="no date"):
        parse_window("UTC", ["mon 08:00-20:00"], [text])


def test_a_window_without_a_span_or_with_too_much_is_refused() -> None:
    with pytest.raises(InputError, match="no span is given"):
        parse_window("UTC", [])
    with pytest.raises(InputError, match="too many"):
        parse_window("UTC", ["mon 08:00-20:00"] * (MOST_SPANS + 1))
    with pytest.raises(InputError, match="too many"):
        parse_window("UTC", ["mon 08:00-20:00"], ["2026-12-24"] * (MOST_DATES + 1))
    with pytest.raises(InputError, match="has 3000 characters"):
        parse_window("UTC", ["m" * 3000])
