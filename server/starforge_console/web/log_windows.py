"""Windows on a log: some of its lines as they are shown, found by number or at its end, never the whole of it."""

import asyncio
from dataclasses import dataclass, field
from typing import Final

from starforge.logtext.levels import is_surely_error
from starforge.logtext.reading import LineReader
from starforge.logtext.render import Line
from starforge_console.ingest.logs import LinePlace
from starforge_console.web.deps import LogReader
from starforge_console.web.log_search import Hit, Wanted, search_log

LINES_SHOWN: Final = 500
WINDOW_BYTES: Final = 2 << 20
END_BYTES: Final = 1 << 20
_OPEN_LINE_BYTES: Final = 256 << 10
_PIECE_BYTES: Final = 256 << 10
_ERROR_LOOK_BYTES: Final = 64 << 20
_HITS_A_STEP: Final = 200
_MENTIONS_AT_MOST: Final = 4000
_STEPS_AT_MOST: Final = 24


@dataclass(frozen=True, slots=True)
class Missing:
    """The place of a range of bytes that are not here."""

    begin: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogWindow:
    """Lines of a log, with the ranges between them that are missing.

    `open_line` has no end yet. `first` is the number of the first line, `later` that of the line to go on from, None at
    the end of the log; `place` is where a live log goes on.
    """

    items: tuple[Line | Missing, ...] = ()
    open_line: Line | None = None
    first: int = 1
    later: int | None = None
    place: LinePlace = field(default_factory=lambda: LinePlace(1, 0))
    received_to: int = 0
    ended: bool = False

    @property
    def earlier(self) -> int | None:
        """The number of the line that lies a window further up; None at the beginning."""
        return max(1, self.first - LINES_SHOWN) if self.first > 1 else None


async def load_end(logs: LogReader, attempt: str, lines: int = LINES_SHOWN) -> LogWindow:
    """The last `lines` lines of the attempt's log, or fewer where they are very long."""
    state = await logs.read_part(attempt, 0, 0)
    last = await logs.number_of(attempt, state.received_to)
    start = await logs.find_line(attempt, max(1, last - lines)) or LinePlace(1, 0)
    if start.offset < state.received_to - END_BYTES:
        start = await _find_near_end(logs, attempt, last, state.received_to)
    return await _read(logs, attempt, start, lines + 1)


async def load_around(logs: LogReader, attempt: str, number: int, before: int, after: int) -> LogWindow:
    """Line `number` with so many lines before and after it; the end of the log where it has no such line."""
    start = await logs.find_line(attempt, max(1, number - before))
    if start is None:
        return await load_end(logs, attempt)
    return await _read(logs, attempt, start, min(number, before + 1) + after)


async def find_first_error(logs: LogReader, attempt: str) -> int | None:
    """The number of the line where the first error begins, else of the first that speaks of one.

    Of a long log its last part is looked through: what ended a job stands there.
    """
    state = await logs.read_part(attempt, 0, 0)
    at: int | None = max(0, state.received_to - _ERROR_LOOK_BYTES)
    mentions: list[Hit] = []
    for _ in range(_STEPS_AT_MOST):
        if at is None or len(mentions) >= _MENTIONS_AT_MOST:
            break
        found = await search_log(logs, attempt, Wanted(errors=True), at, _HITS_A_STEP)
        sure = next((hit for hit in found.hits if is_surely_error(hit.text)), None)
        if sure is not None:
            return sure.number
        mentions += found.hits
        at = found.next_offset
    return mentions[0].number if mentions else None


async def _find_near_end(logs: LogReader, attempt: str, last: int, received_to: int) -> LinePlace:
    """The first line that lies whole within what is read of an end; else a place within the last line."""
    begin = received_to - END_BYTES
    start = await logs.find_line(attempt, await logs.number_of(attempt, begin) + 1)
    if start is not None and start.number < last:
        return start
    # One line that goes on and on: what it shows now is decided at its end.
    return LinePlace(last, received_to - _OPEN_LINE_BYTES)


async def _read(logs: LogReader, attempt: str, start: LinePlace, most: int) -> LogWindow:
    """At most `most` lines and about WINDOW_BYTES from `start` on."""
    reader = LineReader(start.number, start.offset)
    items: list[Line | Missing] = []
    at, read_bytes = start.offset, 0
    while True:
        part = await logs.read_part(attempt, at, _PIECE_BYTES)
        if part.gap is not None:
            _add(items, reader.finish())
            items.append(Missing(*part.gap))
            reader = LineReader(await logs.number_of(attempt, part.next_offset), part.next_offset)
        elif part.content:
            items += await asyncio.to_thread(_list_lines, reader, part.content)
        at, read_bytes = part.next_offset, read_bytes + len(part.content)
        at_end = at >= part.received_to
        if at_end or len(items) >= most or read_bytes >= WINDOW_BYTES:
            break
    later = _find_later(items, most, reader, at_end=at_end)
    if later is None and part.ended:
        _add(items, reader.finish())
    return LogWindow(
        items=tuple(items[:most]),
        open_line=reader.peek() if later is None else None,
        first=start.number,
        later=later,
        place=LinePlace(reader.number, reader.offset),
        received_to=part.received_to,
        ended=part.ended,
    )


def _find_later(items: list[Line | Missing], most: int, reader: LineReader, *, at_end: bool) -> int | None:
    """The number of the line that follows a window of `most` lines; None where nothing does.

    A line that is longer than a window is shown as far as it was read.
    """
    over = next((item.number for item in items[most:] if isinstance(item, Line)), None)
    if over is not None or at_end:
        return over
    unfinished = reader.peek()
    if unfinished is None or len(items) >= most:
        return reader.number
    items.append(unfinished)
    return unfinished.number + 1


def _add(items: list[Line | Missing], line: Line | None) -> None:
    if line is not None:
        items.append(line)


def _list_lines(reader: LineReader, content: bytes) -> list[Line]:
    return list(reader.feed(content))
