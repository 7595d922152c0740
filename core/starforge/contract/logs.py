"""The messages of the console's API about the lines of a log; the bytes of one come as they are, without a message."""

from typing import Final, Literal

from starforge.contract.api import Answer

HEADER_LOG_OFFSET: Final = "X-Log-Offset"
"""The offset of the first byte of an answer: that which was asked for, or where the line begins that was asked for."""
HEADER_LOG_NEXT_OFFSET: Final = "X-Log-Next-Offset"
"""The offset to go on from: behind these bytes, or behind the range that is missing here."""
HEADER_LOG_MISSING: Final = "X-Log-Missing"
"""The range of bytes that is not here, as `from-to`, where reading stands before one and gaps are skipped."""

HITS_AT_MOST: Final = 200
LINES_AT_MOST: Final = 2000

Level = Literal["", "warn", "err", "gap"]


class LogHit(Answer):
    """A line that was searched for: a part of it as it is shown, with where in that part the match lies."""

    line: int
    offset: int
    text: str
    begin: int
    end: int
    level: Level = ""


class LogHits(Answer):
    """What a search found between two bytes of an attempt's log.

    `next` is the byte to go on from; None once the search has come to the end of what is here, which a log that has not
    `ended` may add to.
    """

    attempt: int
    items: tuple[LogHit, ...]
    next: int | None
    searched_from: int
    searched_to: int
    received_to: int
    ended: bool


class LogLine(Answer):
    """A line as it is shown. `missing` makes it the place of a range of bytes that are not here: it has no number."""

    number: int | None
    offset: int
    text: str
    level: Level = ""
    omitted_bytes: int = 0
    missing: tuple[int, int] | None = None


class LogLines(Answer):
    """Lines of an attempt's log. `earlier` and `later` are numbers of lines to go on from; None at either end.

    `is_open`: the last line has no end yet.
    """

    attempt: int
    items: tuple[LogLine, ...]
    earlier: int | None
    later: int | None
    is_open: bool
    received_to: int
    ended: bool
