"""The part of a log that a page shows: its end, a window further up, or the lines that hold a text."""

from dataclasses import dataclass, field, replace
from typing import Final

from starforge_console.ledger.views import AttemptRecord
from starforge_console.web.deps import LogReader
from starforge_console.web.pages.log_lines import LogLine, Place, build_line, split_log

WINDOW_BYTES: Final = 64 << 10
LINES_SHOWN: Final = 500
FEW_LINES: Final = 50
SEARCHED_BYTES: Final = 8 << 20
HITS_SHOWN: Final = 200
PIECE_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LogView:
    """Lines of a log. `earlier` and `later` are where the windows before and after begin; None where there are none.

    `place` is where a live log goes on. `searched_bytes` is how much was looked through for `hits`.
    """

    lines: tuple[LogLine, ...] = ()
    tail: LogLine | None = None
    place: Place = field(default_factory=lambda: Place(0))
    earlier: int | None = None
    later: int | None = None
    is_end: bool = True
    hits: int | None = None
    searched_bytes: int = 0

    @property
    def first_error(self) -> int | None:
        """The number of the first line here that speaks of an error."""
        return next((number for number, line in enumerate(self.lines) if line.level == "err"), None)


async def load_log(logs: LogReader, attempt: AttemptRecord | None, start: int | None, find: str) -> LogView:
    """What is to be shown of the attempt's log; `start` asks for a window, `find` for the lines that hold it."""
    if attempt is None or attempt.log_removed_at is not None:
        return LogView()
    state = await logs.read_log(attempt.id, 0, 0)
    if find:
        return await _search(logs, attempt.id, state.received_to, find)
    if start is not None:
        return await _load_window(logs, attempt.id, min(start, state.received_to), WINDOW_BYTES)
    view = await _load_window(logs, attempt.id, max(0, state.received_to - WINDOW_BYTES), WINDOW_BYTES)
    if len(view.lines) < FEW_LINES and view.earlier is not None:
        # Lines so long that few of them fill the window: look further back.
        view = await _load_window(logs, attempt.id, max(0, state.received_to - PIECE_BYTES), PIECE_BYTES)
    return replace(view, lines=view.lines[-LINES_SHOWN:])


async def _load_window(logs: LogReader, attempt: str, begin: int, size_bytes: int) -> LogView:
    piece = await logs.read_log(attempt, begin, size_bytes)
    is_end = begin + len(piece.content) >= piece.received_to
    split = split_log(piece.content, Place(begin, skipping=begin > 0), ended=piece.ended and is_end)
    return LogView(
        lines=split.lines,
        tail=split.tail if is_end else None,
        place=split.place,
        earlier=max(0, begin - WINDOW_BYTES) if begin > 0 else None,
        later=None if is_end else begin + len(piece.content),
        is_end=is_end,
    )


async def _search(logs: LogReader, attempt: str, received_to: int, find: str) -> LogView:
    wanted, begin = find.encode().lower(), max(0, received_to - SEARCHED_BYTES)
    offset, rest = begin, b""
    hits: list[bytes] = []
    while True:
        piece = await logs.read_log(attempt, offset, PIECE_BYTES)
        *lines, rest = (rest + piece.content).split(b"\n")
        hits += [line for line in lines if wanted in line.lower()]
        if not piece.content:
            break
        offset += len(piece.content)
        rest = rest[-PIECE_BYTES:]
    hits += [rest] if rest and wanted in rest.lower() else []
    shown = tuple(build_line(line) for line in hits[-HITS_SHOWN:])
    return LogView(lines=shown, hits=len(hits), searched_bytes=offset - begin, is_end=False)
