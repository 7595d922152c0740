"""When windows are open: spans of a week in a time zone, as instants. Pure.

Instants are Unix seconds. A span's end belongs to the day on which it starts. A local time that does not exist is the
instant at which the clocks were put forward; one that exists twice is the first of the two. Several windows at once
are open where each of them is; no window at all is always open.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

DAY_MINUTES: Final = 24 * 60
DAY_S: Final = 86_400
HORIZON_DAYS: Final = 400
"""How far ahead and back is looked: a window that is not open so soon counts as one that never opens again."""
_FIRST_LOOK_DAYS: Final = 9
_MARGIN: Final = timedelta(days=3)
"""A span that is open at an instant started at most so long before it: a day, another for its end, a skipped one."""


@dataclass(frozen=True, slots=True)
class WeekSpan:
    """Hours of some days of the week (Monday is 0). An end that is not behind the start is on the day after."""

    days: frozenset[int]
    start_minute: int
    end_minute: int


@dataclass(frozen=True, slots=True)
class Window:
    """When something may run. `without` are dates on which no span starts."""

    zone: str
    open: tuple[WeekSpan, ...]
    without: frozenset[date] = frozenset()


class Span(NamedTuple):
    """Open from `opens` (included) to `closes` (not included)."""

    opens: int
    closes: int


class OpenSpan(NamedTuple):
    """The span that is open at an instant; None is a time that lies further off than is looked."""

    opens: int | None
    closes: int | None


class EdgeKind(StrEnum):
    """What happens at an edge."""

    OPENS = "opens"
    CLOSES = "closes"


class Edge(NamedTuple):
    """An instant from which on it is otherwise."""

    at: int
    kind: EdgeKind


def build_spans(windows: Sequence[Window], from_s: int, to_s: int) -> list[Span]:
    """When all `windows` are open within [from_s, to_s), cut at both; in order, and no two of them touch."""
    spans = [Span(from_s, to_s)] if from_s < to_s else []
    for window in windows:
        spans = _intersect(spans, _list_spans(window, from_s, to_s))
    return spans


def is_open(windows: Sequence[Window], at: float) -> bool:
    """Whether all of them are open at that instant."""
    return bool(build_spans(windows, int(at // 1), int(at // 1) + 1))


def find_span(windows: Sequence[Window], at: float) -> OpenSpan | None:
    """The span that is open at the instant; None when it is closed then."""
    if not is_open(windows, at):
        return None
    second = int(at // 1)
    earliest = second - HORIZON_DAYS * DAY_S
    opens = next((start for start in _grow(second, -1) if _starts_after(windows, start, second)), earliest)
    before = build_spans(windows, opens, second + 1)[-1].opens
    return OpenSpan(None if before == earliest else before, find_close(windows, at))


def find_close(windows: Sequence[Window], at: float) -> int | None:
    """When the span that is open at the instant closes; None when that is further off than is looked.

    One that is closed at the instant closes then.
    """
    second = int(at // 1)
    for to_s in _grow(second, 1):
        spans = build_spans(windows, second, to_s)
        if not spans or spans[0].opens > second:
            return second
        if spans[0].closes < to_s:
            return spans[0].closes
    return None


def list_edges(windows: Sequence[Window], at: float, count: int) -> list[Edge]:
    """The next `count` edges after the instant, fewer where no more come: what is always open has none."""
    second = int(at // 1)
    edges: list[Edge] = []
    for to_s in _grow(second, 1):
        spans = build_spans(windows, second, to_s)
        edges = [
            edge
            for opens, closes in spans
            for edge in (Edge(opens, EdgeKind.OPENS), Edge(closes, EdgeKind.CLOSES))
            if second < edge.at < to_s
        ]
        if len(edges) >= count:
            break
    return edges[:count]


def find_start(windows: Sequence[Window], at: float, grace_s: float) -> float | None:
    """The first instant from `at` on at which a job may start: its closing, `grace_s` before the end, is yet to come.

    None when no such instant comes: the windows never open again, or never for as long as that.
    """
    second = int(at // 1)
    for to_s in _grow(second, 1):
        for opens, closes in build_spans(windows, second, to_s):
            start = max(at, opens)
            if start < closes - grace_s and (closes < to_s or to_s - second >= HORIZON_DAYS * DAY_S):
                return start
            if closes == to_s and start < closes:
                break  # its end is not seen yet: look further
    return None


def _grow(second: int, sign: int) -> Iterator[int]:
    """Ever further ends of a look, to the horizon."""
    days = _FIRST_LOOK_DAYS
    while days < HORIZON_DAYS:
        yield second + sign * days * DAY_S
        days *= 4
    yield second + sign * HORIZON_DAYS * DAY_S


def _starts_after(windows: Sequence[Window], from_s: int, at: int) -> bool:
    """Whether the span that is open at `at` began after `from_s`."""
    return build_spans(windows, from_s, at + 1)[-1].opens > from_s


def _intersect(left: Sequence[Span], right: Sequence[Span]) -> list[Span]:
    found: list[Span] = []
    i = j = 0
    while i < len(left) and j < len(right):
        opens, closes = max(left[i].opens, right[j].opens), min(left[i].closes, right[j].closes)
        if opens < closes:
            found.append(Span(opens, closes))
        if left[i].closes < right[j].closes:
            i += 1
        else:
            j += 1
    return found


def _list_spans(window: Window, from_s: int, to_s: int) -> list[Span]:
    """The window's spans within [from_s, to_s), merged."""
    zone = ZoneInfo(window.zone)
    day = (datetime.fromtimestamp(from_s, zone) - _MARGIN).date()
    last = (datetime.fromtimestamp(to_s, zone) + _MARGIN).date()
    merged: list[Span] = []
    while day <= last:
        for span in _list_day(window, day):
            opens, closes = max(from_s, span.opens), min(to_s, span.closes)
            if merged and opens <= merged[-1].closes:
                merged[-1] = Span(merged[-1].opens, max(merged[-1].closes, closes))
            elif opens < closes:
                merged.append(Span(opens, closes))
        day += timedelta(days=1)
    return merged


@lru_cache(maxsize=8192)
def _list_day(window: Window, day: date) -> tuple[Span, ...]:
    """The spans that start on that day, in order; one that lies in a gap of the clocks is none."""
    if day in window.without:
        return ()
    spans = []
    for span in window.open:
        if day.weekday() not in span.days:
            continue
        end = span.end_minute if span.end_minute > span.start_minute else span.end_minute + DAY_MINUTES
        opens, closes = (_find_instant(window.zone, day, minute) for minute in (span.start_minute, end))
        if opens < closes:
            spans.append(Span(opens, closes))
    return tuple(sorted(spans))


def _find_instant(zone_name: str, day: date, minute: int) -> int:
    """The first instant at which the clocks of the zone show that minute of `day`, or one behind it."""
    zone = ZoneInfo(zone_name)
    local = datetime(day.year, day.month, day.day) + timedelta(minutes=minute)  # noqa: DTZ001 - a time on the wall
    # Where the clocks were put forward over it, the one before counts with the offset of before, and lies too late.
    late = int(local.replace(tzinfo=zone, fold=0).timestamp())
    if datetime.fromtimestamp(late, zone).replace(tzinfo=None) == local:
        return late
    early = int(local.replace(tzinfo=zone, fold=1).timestamp())
    before = _offset_s(zone, early)
    return early + bisect_left(range(early, late), True, key=lambda second: _offset_s(zone, second) != before)  # noqa: FBT003 - what is looked for


def _offset_s(zone: ZoneInfo, second: int) -> float:
    offset = datetime.fromtimestamp(second, UTC).astimezone(zone).utcoffset()
    return offset.total_seconds() if offset is not None else 0.0
