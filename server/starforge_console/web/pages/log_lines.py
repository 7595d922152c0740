"""Lines of a log as a page shows them, and where a page that is open reads on."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from starforge.errors import InputError
from starforge.logtext.levels import Level, find_level
from starforge.logtext.records import build_record
from starforge.logtext.render import Line, Span, render_record
from starforge.said.sentence import say
from starforge_console.web.log_windows import Missing

LINE_BYTES: Final = 64 << 10
"""A line that is longer without an end is shown as far as it goes, and what follows of it is passed over."""

_PLACE: Final = re.compile(r"([0-9]{1,16})-([0-9]{1,16})(s?)")


@dataclass(frozen=True, slots=True)
class Place:
    """Where reading goes on, and in which line that is. `skipping`: its rest is passed over."""

    offset: int
    number: int = 1
    skipping: bool = False

    def __str__(self) -> str:
        return f"{self.offset}-{self.number}{'s' if self.skipping else ''}"


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line as it is shown. `missing` makes it the place of a range of bytes that are not here, without a number."""

    number: int | None
    spans: tuple[Span, ...]
    level: Level = ""
    missing: Missing | None = None

    @property
    def text(self) -> str:
        """What it says, without colours."""
        return "".join(span.text for span in self.spans)


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Whole lines, the line that has no end yet, and where reading goes on."""

    lines: tuple[LogLine, ...]
    tail: LogLine | None
    place: Place


def parse_place(text: str) -> Place:
    """The place that `str(place)` stands for. Raises InputError."""
    found = _PLACE.fullmatch(text)
    if found is None:
        raise InputError(say("form.no_place", text=repr(text[:40])), next_step=say("form.load_again"))
    return Place(int(found[1]), int(found[2]), bool(found[3]))


def show_items(items: Iterable[Line | Missing]) -> tuple[LogLine, ...]:
    """The items of a window as a page shows them."""
    return tuple(show_missing(item) if isinstance(item, Missing) else show_line(item) for item in items)


def show_line(line: Line) -> LogLine:
    """A line as a page shows it."""
    return LogLine(line.number, line.spans, find_level(line.text))


def show_missing(missing: Missing) -> LogLine:
    """The place of what is missing."""
    return LogLine(None, (), "gap", missing)


def split_log(content: bytes, place: Place, *, ended: bool = False) -> LogPiece:
    """The lines of `content`, which begins at `place`. `ended`: nothing follows, so the last line is whole."""
    at, number = 0, place.number
    if place.skipping:
        end = content.find(b"\n")
        if end < 0:
            return LogPiece((), None, Place(place.offset + len(content), number, not ended))
        at, number = end + 1, number + 1
    *whole, rest = content[at:].split(b"\n")
    lines = [_show(line, number + index) for index, line in enumerate(whole)]
    number += len(whole)
    begin = place.offset + len(content) - len(rest)
    if len(rest) > LINE_BYTES:
        # Of a progress bar what was written over is not read again.
        over = max(0, rest.rfind(b"\r", 0, len(rest) - 1))
        rest, begin = rest[over:], begin + over
    if rest and (ended or len(rest) > LINE_BYTES):
        return LogPiece((*lines, _show(rest, number)), None, Place(begin + len(rest), number, not ended))
    return LogPiece(tuple(lines), _show(rest, number) if rest else None, Place(begin, number))


def _show(raw: bytes, number: int) -> LogLine:
    return show_line(render_record(build_record(raw, number, 0)))
