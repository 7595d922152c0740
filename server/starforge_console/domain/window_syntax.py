"""How windows are written: a time zone, spans of a week such as `mon-fri 20:00-08:00`, and dates that are left out."""

import re
from collections.abc import Sequence
from datetime import date
from functools import lru_cache
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from starforge.errors import InputError
from starforge.said.sentence import say
from starforge_console.domain.nearest import say_nearest
from starforge_console.domain.windows import DAY_MINUTES, WeekSpan, Window

DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
MOST_SPANS: Final = 50
MOST_DATES: Final = 400
LONGEST: Final = 100
"""Of one span's text, in characters."""
_NO_PLACES: Final = frozenset({"localtime", "Factory"})
"""What stands among the tables of some machines: whichever zone the machine is set to, and that it is set to none."""
_EXAMPLE: Final = "for instance 'mon-fri 20:00-08:00'"
_TIME: Final = re.compile(r"([0-9]{2}):([0-9]{2})", re.ASCII)
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)


class _Piece(NamedTuple):
    """Part of a text, with where it begins in the whole one, counted from 1."""

    text: str
    column: int
    whole: str

    def fail(self, why: str, next_step: str) -> InputError:
        return InputError(
            say("form.no_span", whole=repr(self.whole), text=repr(self.text), column=self.column),
            why=why,
            next_step=next_step,
        )


def parse_window(zone: str, open_: Sequence[str], except_: Sequence[str] = ()) -> Window:
    """The window that is written so. Pure but for the tables of time zones.

    Raises:
        InputError: says which text cannot be read, at which column, why, and what to write instead.

    """
    if not open_:
        raise InputError(say("form.no_spans"), next_step=say("form.write_span", example=_EXAMPLE))
    if len(open_) > MOST_SPANS or len(except_) > MOST_DATES:
        raise InputError(
            say("form.many_spans", spans=len(open_), dates=len(except_)),
            why=say("form.many_spans_why", spans=MOST_SPANS, dates=MOST_DATES),
            next_step=say("form.many_spans_next"),
        )
    return read_window(find_zone(zone).key, open_, except_)


def read_window(zone: str, open_: Sequence[str], except_: Sequence[str]) -> Window:
    """A window that was parsed before, also where its zone is not known here any more. Raises InputError."""
    return Window(zone=zone, open=tuple(map(parse_span, open_)), without=frozenset(map(parse_date, except_)))


def knows_zone(name: str) -> bool:
    """Whether this machine has the table of the time zone of that name."""
    try:
        _load_zone(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def find_zone(name: str) -> ZoneInfo:
    """The time zone of that name. Raises InputError."""
    try:
        return _load_zone(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # there is none, or its table cannot be read
        raise InputError(
            say("form.no_zone", name=repr(name)),
            why=say("form.no_zone_why"),
            next_step=say_nearest(name, sorted(_list_names())),
        ) from None


@lru_cache(maxsize=1024)
def _load_zone(name: str) -> ZoneInfo:
    """The zone; one that is not there is looked for again each time, for its table may come with an update."""
    zone = ZoneInfo(name)
    if name not in _list_names():
        _list_names.cache_clear()
    if name not in _list_names():  # a file beside the tables, such as the machine's own zone, is not one of them
        raise ZoneInfoNotFoundError(name)
    return zone


@lru_cache(maxsize=1)
def _list_names() -> frozenset[str]:
    """Every zone that has a name of its own. To list them is to walk through all tables."""
    return frozenset(available_timezones() - _NO_PLACES)


def parse_span(text: str) -> WeekSpan:
    """`DAYS HH:MM-HH:MM`, where DAYS are days and ranges of days separated by commas. Raises InputError."""
    if len(text) > LONGEST:
        raise InputError(
            say("form.long_span", text=repr(text[:20]), n=len(text)),
            next_step=say("form.write_one_span", example=_EXAMPLE),
        )
    pieces = [_Piece(found[0], found.start() + 1, text) for found in re.finditer(r"\S+", text)]
    if len(pieces) != 2:  # noqa: PLR2004 - days and hours
        piece = pieces[2] if len(pieces) > 2 else _Piece("", len(text) + 1, text)  # noqa: PLR2004 - the one too many
        why = "a span is its days, one space, and its hours; there is none within days or hours"
        raise piece.fail(why, f"write it so: {_EXAMPLE}")
    days, hours = pieces
    start, end = _parse_hours(hours)
    return WeekSpan(days=_parse_days(days), start_minute=start, end_minute=end)


def parse_date(text: str) -> date:
    """A date such as 2026-12-24. Raises InputError."""
    try:
        if _DATE.fullmatch(text):
            return date.fromisoformat(text)
    except ValueError as error:
        raise InputError(
            say("form.no_date", text=repr(text)), why=str(error), next_step=say("form.date_exists")
        ) from None
    raise InputError(say("form.no_date", text=repr(text)), next_step=say("form.no_date_next"))


def write_span(span: WeekSpan) -> str:
    """The span as text; `parse_span` gives the same again."""
    return f"{_write_days(span.days)} {_write_time(span.start_minute)}-{_write_time(span.end_minute)}"


def _parse_days(piece: _Piece) -> frozenset[int]:
    days: set[int] = set()
    for part in _split(piece, ","):
        first, *rest = [_parse_day(name) for name in _split(part, "-")]
        if len(rest) > 1:
            raise part.fail("a range of days has a first and a last one", "write mon-fri")
        last = rest[0] if rest else first
        days.update((first + ahead) % len(DAYS) for ahead in range((last - first) % len(DAYS) + 1))
    return frozenset(days)


def _parse_day(piece: _Piece) -> int:
    if piece.text.lower() not in DAYS:
        raise piece.fail("this is no day of the week", f"the days are {', '.join(DAYS)}")
    return DAYS.index(piece.text.lower())


def _parse_hours(piece: _Piece) -> tuple[int, int]:
    times = _split(piece, "-")
    if len(times) != 2:  # noqa: PLR2004 - from and to
        raise piece.fail("the hours of a span are its start and its end", "write 20:00-08:00")
    start, end = map(_parse_time, times)
    if start == DAY_MINUTES:
        raise times[0].fail("24:00 is the end of a day, and no span starts there", "write 00:00, on the day after")
    if start == end:
        raise piece.fail("it starts when it ends, and so it is never open", "write 00:00-24:00 for a whole day")
    return start, end


def _parse_time(piece: _Piece) -> int:
    found = _TIME.fullmatch(piece.text)
    if found is None:
        raise piece.fail("this is no time of day", "write hours and minutes with two digits each, for instance 08:30")
    hours, minutes = int(found[1]), int(found[2])
    if minutes >= 60 or hours * 60 + minutes > DAY_MINUTES:  # noqa: PLR2004 - minutes of an hour
        raise piece.fail("there is no such time of day", "a day goes from 00:00 to 24:00")
    return hours * 60 + minutes


def _split(piece: _Piece, by: str) -> list[_Piece]:
    parts, column = [], piece.column
    for text in piece.text.split(by):
        parts.append(_Piece(text, column, piece.whole))
        column += len(text) + 1
    return parts


def _write_days(days: frozenset[int]) -> str:
    """Days that follow each other, three at least, as a range; it may go over the end of the week."""
    if len(days) == len(DAYS):
        return f"{DAYS[0]}-{DAYS[-1]}"
    runs = []
    for first in sorted(day for day in days if (day - 1) % len(DAYS) not in days):
        run = [first]
        while (run[-1] + 1) % len(DAYS) in days:
            run.append((run[-1] + 1) % len(DAYS))
        names = [DAYS[day] for day in run]
        runs.append(f"{names[0]}-{names[-1]}" if len(names) > 2 else ",".join(names))  # noqa: PLR2004 - a pair is no range
    return ",".join(runs)


def _write_time(minute: int) -> str:
    return f"{minute // 60:02d}:{minute % 60:02d}"
