"""A log that comes in pieces, as lines that are fit to be shown, and as the text that a terminal or a file gets."""

import re
from collections.abc import Iterator
from typing import Final

from starforge.logtext.levels import take_rank
from starforge.logtext.records import Records
from starforge.logtext.render import Line, Span, paint_line, render_record

_SPECIAL: Final = re.compile(rb"[^\t\n\x20-\x7e]")
_LONG: Final = 4 << 10


class LineReader:
    """Lines of a log that is fed piece by piece; wherever it is cut, the lines are the same."""

    def __init__(self, number: int = 1, offset: int = 0, rank: int | None = None) -> None:
        """The first byte that is fed lies at `offset`, in line `number`. With `rank`, only what it wrote is given."""
        self._records = Records(number, offset)
        self._rank = rank

    @property
    def number(self) -> int:
        """The number of the line that begins at `offset`."""
        return self._records.number

    @property
    def offset(self) -> int:
        """Where the line begins that has no end yet, else where the next one will."""
        return self._records.offset

    def feed(self, content: bytes) -> Iterator[Line]:
        """The lines that end in `content`; to be read to its end before the next piece is fed."""
        for record in self._records.feed(content):
            line = self._choose(render_record(record))
            if line is not None:
                yield line

    def peek(self) -> Line | None:
        """The line that has no end yet, as it stands now."""
        record = self._records.peek()
        return None if record is None else self._choose(render_record(record))

    def finish(self) -> Line | None:
        """The last line, where the log ended without a line's end."""
        record = self._records.finish()
        return None if record is None else self._choose(render_record(record))

    def _choose(self, line: Line) -> Line | None:
        return line if self._rank is None else choose_rank(line, self._rank)


class LogText:
    """Turns the bytes of one log into text, line by line; what has no end yet waits for it."""

    def __init__(self, *, colour: bool, rank: int | None = None) -> None:
        self._colour = colour
        self._reader = LineReader(rank=rank)
        self._is_any = rank is None

    def feed(self, content: bytes) -> str:
        """The text of the lines that end in `content`."""
        if self._is_any and self._reader.peek() is None and _is_plain(content):
            cut = content.rfind(b"\n") + 1
            for _ in self._reader.feed(content[cut:]):
                pass
            return content[:cut].decode("ascii")
        return "".join(f"{paint_line(line, colour=self._colour)}\n" for line in self._reader.feed(content))

    def peek(self) -> str:
        """The text of the line that has no end yet."""
        line = self._reader.peek()
        return "" if line is None else paint_line(line, colour=self._colour)

    def finish(self) -> str:
        """The text of the last line, with an end even where the log has none."""
        line = self._reader.finish()
        return "" if line is None else f"{paint_line(line, colour=self._colour)}\n"


def choose_rank(line: Line, rank: int) -> Line | None:
    """What `rank` wrote of the line; None when that is nothing. A line that is torn between ranks loses its colours."""
    text = line.text
    taken = take_rank(text, rank)
    if taken is None or taken == text:
        return None if taken is None else line
    return Line(line.number, line.offset, (Span(taken),), line.is_ended)


def _is_plain(content: bytes) -> bool:
    """Whether the piece is shown as it is: printable ASCII in lines of usual length."""
    return _SPECIAL.search(content) is None and all(len(line) <= _LONG for line in content.split(b"\n"))
