"""The part of a log that a page shows: its end, lines around one, or what a search found."""

from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from fastapi import Depends, Query

from starforge_console.ledger.views import AttemptRecord
from starforge_console.web.attempts import choose_logs
from starforge_console.web.deps import ApiServices, LogReader
from starforge_console.web.diagnosis import find_view
from starforge_console.web.log_lines import LARGEST
from starforge_console.web.log_search import Hit, Wanted, search_log
from starforge_console.web.log_windows import LINES_SHOWN, LogWindow, find_first_error, load_around, load_end
from starforge_console.web.pages.log_lines import LogLine, Place, show_items, show_line

HITS_SHOWN: Final = 100
SEARCHES_A_PAGE: Final = 8
"""So many steps of a search one request makes at most: 256 MiB of plain lines."""
BEFORE: Final = 30
"""So many lines stand before the one that a link leads to."""


@dataclass(frozen=True, slots=True)
class LogAsked:
    """What a reader asks of a log: a line, its first error, or the lines that hold a text or that a rank wrote."""

    line: int | None = None
    is_error: bool = False
    find: str = ""
    rank: int | None = None
    start: int = 0
    attempt: int | None = None
    node: int = 0

    @property
    def of_node(self) -> str:
        """What an address adds to stay with this node's log."""
        return f"&node={self.node}" if self.node else ""

    @property
    def is_search(self) -> bool:
        """Whether lines are looked for."""
        return bool(self.find) or self.rank is not None

    @property
    def is_live(self) -> bool:
        """Whether the end of the log is shown as it grows."""
        return self.line is None and not self.is_error


@dataclass(frozen=True, slots=True, kw_only=True)
class LogView:
    """Lines of a log and hits of a search.

    `earlier` and `later` are lines that the windows before and after begin with; None where there are none. `place` is
    where a live log goes on. `target` is the line that was asked for, None where there is no such line.
    """

    asked: LogAsked = field(default_factory=LogAsked)
    lines: tuple[LogLine, ...] = ()
    tail: LogLine | None = None
    place: Place = field(default_factory=lambda: Place(0))
    earlier: int | None = None
    later: int | None = None
    target: int | None = None
    hits: tuple[Hit, ...] = ()
    hits_next: int | None = None
    searched_to: int = 0


async def parse_log_asked(  # noqa: PLR0913, PLR0917 - one parameter a wish
    line: Annotated[int | None, Query(ge=1, le=LARGEST)] = None,
    at: Annotated[str, Query(max_length=20)] = "",
    find: Annotated[str, Query(max_length=200)] = "",
    rank: Annotated[str, Query(max_length=5, pattern="[0-9]*")] = "",
    start: Annotated[int, Query(alias="from", ge=0, le=LARGEST)] = 0,
    attempt: Annotated[int | None, Query(ge=1, le=1_000_000)] = None,
    node: Annotated[int, Query(ge=0, le=99_999)] = 0,
) -> LogAsked:
    """The reader's wishes as a page's address tells them; an empty field of the form wishes nothing."""
    return LogAsked(line, at == "error", find, int(rank) if rank else None, start, attempt, node)


AskedOfLog = Annotated[LogAsked, Depends(parse_log_asked)]


async def load_log(services: ApiServices, job_id: str, attempt: AttemptRecord | None, asked: LogAsked) -> LogView:
    """What is to be shown of the attempt's log."""
    if attempt is None or attempt.log_removed_at is not None:
        return LogView(asked=asked)
    logs = await choose_logs(services, job_id, asked.node)
    line = await find_error(services, job_id, attempt, asked.node) if asked.is_error else asked.line
    if line is None:
        window = await load_end(logs, attempt.id)
    else:
        window = await load_around(logs, attempt.id, line, BEFORE, LINES_SHOWN)
    found = await load_hits(logs, attempt.id, asked) if asked.is_search else {}
    return LogView(asked=asked, target=line, **describe_window(window), **found)


async def find_error(services: ApiServices, job_id: str, attempt: AttemptRecord, node: int = 0) -> int | None:
    """The line that the diagnosis names as the cause, else the first one that speaks of an error.

    The diagnosis is made from the log of the node that leads.
    """
    is_diagnosed = attempt.ended_at is not None and node == 0
    found = await find_view(services, job_id, attempt) if is_diagnosed else None
    if found is not None and found.line is not None:
        return found.line
    return await find_first_error(await choose_logs(services, job_id, node), attempt.id)


def describe_window(window: LogWindow) -> dict[str, Any]:
    """A window as members of a view."""
    place = Place(window.place.offset, window.place.number)
    tail = None if window.open_line is None else show_line(window.open_line)
    lines = show_items(window.items)
    return {"lines": lines, "tail": tail, "place": place, "earlier": window.earlier, "later": window.later}


async def load_hits(logs: LogReader, attempt: str, asked: LogAsked) -> dict[str, Any]:
    """The next hits of a search as members of a view; a long log is searched in steps, so many a request."""
    wanted, hits = Wanted(text=asked.find, rank=asked.rank), list[Hit]()
    start: int | None = asked.start
    searched_to = asked.start
    for _ in range(SEARCHES_A_PAGE):
        if start is None or len(hits) >= HITS_SHOWN:
            break
        found = await search_log(logs, attempt, wanted, start, HITS_SHOWN - len(hits))
        hits += found.hits
        start, searched_to = found.next_offset, found.searched_to
    return {"hits": tuple(hits), "hits_next": start, "searched_to": searched_to}
