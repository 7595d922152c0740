"""The live parts of pages: one stream a view, each event with finished fragments and the place to come back to."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from starforge.contract.bounds import LARGEST_NUMBER
from starforge.contract.capsule import STREAM_METRICS
from starforge.errors import NotFound
from starforge_console.ingest.streams import log_stream
from starforge_console.ledger.listing import (
    JobLine,
    count_jobs,
    list_touched,
    list_unsettled,
    load_last_event,
    load_lines,
)
from starforge_console.ledger.search import JobSearch
from starforge_console.ledger.views import list_attempts, load_job
from starforge_console.wakeups import JOBS, QUEUE, job_topic, stream_topic
from starforge_console.web.attempts import choose_attempt, choose_logs
from starforge_console.web.deps import ApiServices, Polls, Services
from starforge_console.web.i18n.words import Words
from starforge_console.web.log_windows import Missing
from starforge_console.web.pages.job_view import JobPage, has_ended, load_job_page
from starforge_console.web.pages.jobs import PAGE_SIZE, TABS, count_of
from starforge_console.web.pages.log_lines import LogPiece, Place, parse_place, show_missing, split_log
from starforge_console.web.pages.log_view import LogAsked
from starforge_console.web.pages.look import Look
from starforge_console.web.pages.seats import take_seat
from starforge_console.web.pages.services import Pages, PageServices
from starforge_console.web.pages.side import load_side
from starforge_console.web.pages.visit import SESSION_COOKIE, Signed, Visit
from starforge_console.web.sse import News, Stream, answer_stream, encode_event
from starforge_console.web.steps import add_steps

LOG_PIECE_BYTES: Final = 128 << 10
JUMP_BYTES: Final = 64 << 10
BEHIND_BYTES: Final = 1 << 20
"""A reader who is further behind is taken to the log's end: nobody reads a megabyte of lines as they come."""
PARTS: Final = ("state", "actions", "notice", "facts", "history", "attempts", "lineage", "log_state")
RECENT_EVENTS: Final = 500
OVER: Final = "over"
"""The event after which a page's script does not come back."""
_NUMBER: Final = re.compile(r"[0-9]{1,16}")
_BACK: Final = re.compile(r"([0-9]{1,16})\.([0-9]{1,6})\.([0-9]{1,16}-[0-9]{1,16}s?|-)")

router = APIRouter(include_in_schema=False, dependencies=[Depends(take_seat)])

Number = Annotated[int, Query(ge=0, le=LARGEST_NUMBER)]
Name = Annotated[str, Query(max_length=200)]


@router.get("/live/jobs")
async def follow_jobs(  # noqa: PLR0913 - what the page shows
    pages: Pages,
    services: Services,
    polls: Polls,
    visit: Signed,
    request: Request,
    *,
    jobs: Annotated[str, Query(max_length=4000)] = "",
    after: Number = 0,
    total: Number = 0,
    state: Name = "",
    user: Name = "",
    project: Name = "",
    sweep: Name = "",
    q: Name = "",
) -> Response:
    """Rows of the list that change, the counts of its tabs, and whether the list itself has changed."""
    search = JobSearch(state=state or None, user=user or None, project=project or None, sweep=sweep or None, text=q)
    shown = tuple(one for one in jobs.split(",") if one)[:PAGE_SIZE]
    back = request.headers.get("last-event-id", "")
    reader = _ListReader(
        pages=pages,
        services=services,
        visit=visit,
        search=search,
        shown=shown,
        total=total,
        after=int(back) if _NUMBER.fullmatch(back) else after,
    )
    stream = Stream(topics=lambda: (JOBS, QUEUE), look=reader.look, is_allowed=_asks_again(pages, request))
    return answer_stream(stream, polls, services.wakeups)


@router.get("/live/jobs/{job_id}")
async def follow_job(  # noqa: PLR0913 - where the page stands
    pages: Pages,
    services: Services,
    polls: Polls,
    visit: Signed,
    request: Request,
    *,
    job_id: str,
    attempt: Number = 0,
    log: Annotated[str, Query(max_length=40)] = "-",
    pinned: str = "",
    node: Number = 0,
) -> Response:
    """Parts of the job's page that change, the lines of its log, and that its curves have grown."""
    back = _BACK.fullmatch(request.headers.get("last-event-id", ""))
    number, text = (int(back[2]), back[3]) if back else (attempt, log)
    await _check_attempt(services, job_id, number if pinned else None)
    await choose_logs(services, job_id, node)
    reader = _JobReader(
        pages=pages,
        services=services,
        visit=visit,
        job_id=job_id,
        attempt=number,
        place=None if text == "-" else parse_place(text),
        pinned=bool(pinned),
        node=node,
    )
    stream = Stream(topics=reader.topics, look=reader.look, is_allowed=_asks_again(pages, request))
    return answer_stream(stream, polls, services.wakeups)


async def _check_attempt(services: ApiServices, job_id: str, number: int | None) -> None:
    """Raises NotFound: without the job, or without its attempt of that number, there is nothing to follow."""
    _, attempts = await services.ledger.read(lambda c: (load_job(c, job_id), list_attempts(c, job_id)))
    choose_attempt(job_id, attempts, number)


@dataclass(frozen=True, slots=True)
class _List:
    """All jobs that may have changed, and the newest event, at one moment."""

    lines: Mapping[str, JobLine]
    last_event: int


@dataclass(slots=True, kw_only=True)
class _ListReader:
    """One reader of the list: tells the rows that differ from what was sent."""

    pages: PageServices
    services: ApiServices
    visit: Visit
    search: JobSearch
    shown: Sequence[str]
    total: int
    after: int
    sent: dict[str, JobLine] | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    side: str = ""

    async def look(self, since: float) -> News:
        """The fragments of what has changed."""
        if self.sent is None:
            lines, touched, last = await self._load_first()
            news = [line for one, line in lines.items() if one in touched or not has_ended(line)]
            self.sent = dict(lines)
        else:
            seen = await self.pages.hub.look("jobs", since, self._load_list)
            last, now = seen.last_event, seen.lines
            news = [now[one] for one in self.shown if one in now and now[one] != self.sent.get(one)]
            self.sent |= {line.job.id: line for line in news}
        fragments = [self._row(line) for line in news] + await self._tell_counts(since) + await self._tell_side(since)
        return News([encode_event("\n".join(fragments), str(last))] if fragments else [])

    async def _load_first(self) -> tuple[dict[str, JobLine], set[str], int]:
        lines, touched, last = await self.services.ledger.read(
            lambda c: (load_lines(c, self.shown), list_touched(c, self.shown, self.after), load_last_event(c))
        )
        return await self._add_steps(lines), touched, last

    async def _load_list(self) -> _List:
        lines, last = await self.services.ledger.read(lambda c: list_unsettled(c, RECENT_EVENTS))
        return _List(await self._add_steps(lines), last)

    async def _add_steps(self, lines: Mapping[str, JobLine]) -> dict[str, JobLine]:
        return {line.job.id: line for line in await add_steps(self.services.series, list(lines.values()))}

    def _row(self, line: JobLine) -> str:
        return render_row(self.pages.look, self.visit.words, line, may=self.visit.may_change(line.job.user_id))

    async def _tell_counts(self, since: float) -> list[str]:
        if self.search.text:
            return []  # each count would look through every job for the text
        everything = replace(self.search, state=None)
        key = ("counts", everything)
        counts = await self.pages.hub.look(key, since, lambda: self._count(everything))
        if counts == self.counts:
            return []
        self.counts = counts
        now = count_of(counts, self.search.state or "")
        values = {"counts": counts, "tabs": TABS, "now": now, "total": self.total}
        return [self.pages.look.part(self.visit.words, "live_counts.html", **values)]

    async def _tell_side(self, since: float) -> list[str]:
        side = await load_side(self.pages, self.services, self.visit.words, since)
        news = [side] if side != self.side else []
        self.side = side
        return news

    async def _count(self, search: JobSearch) -> Mapping[str, int]:
        return await self.services.ledger.read(lambda c: count_jobs(c, search))


@dataclass(slots=True, kw_only=True)
class _JobReader:
    """One reader of a job: tells the parts that differ from what was sent, and the log from `place` on."""

    pages: PageServices
    services: ApiServices
    visit: Visit
    job_id: str
    attempt: int
    place: Place | None
    pinned: bool
    node: int = 0
    attempt_id: str = ""
    points: int = -1
    tail: str = ""
    sent: dict[str, str] = field(default_factory=dict)

    def topics(self) -> tuple[str, ...]:
        """What wakes this reader."""
        of_attempt = [stream_topic(self.attempt_id, name) for name in (log_stream(self.node), STREAM_METRICS)]
        return (job_topic(self.job_id), *(of_attempt if self.attempt_id else ()))

    async def look(self, since: float) -> News:
        """The fragments of what has changed."""
        try:
            page, parts = await self._look_at_page(since)
        except NotFound:
            gone = _replace("job-notice", self.pages.look.part(self.visit.words, "job/gone.html"))
            return News([encode_event(gone), encode_event("", name=OVER)], over=True)
        fragments = [_replace(f"job-{name}", text) for name, text in parts.items() if self.sent.get(name) != text]
        self.sent = parts
        lines, more = await self._tell_log(page, since)
        number = f"{page.last_event}.{self.attempt}.{self.place or '-'}"
        events = [encode_event("\n".join(fragments + lines), number)] if fragments or lines else []
        points = sum(page.keys.values())
        if points != self.points:
            self.points = points
            events.append(encode_event(str(points), name="curves"))
        return News(events, more=more)

    async def _look_at_page(self, since: float) -> tuple[JobPage, dict[str, str]]:
        """The job and its rendered parts, shared by all who see them alike."""
        pages, services, words, job_id = self.pages, self.services, self.visit.words, self.job_id
        pinned = self.attempt if self.pinned else None

        async def load() -> JobPage:
            return await load_job_page(services, job_id, pinned)

        async def render(page: JobPage, *, may: bool) -> tuple[JobPage, dict[str, str]]:
            return page, render_parts(pages.look, words, page, may=may)

        page = await pages.hub.look(("job", job_id, pinned), since, load)
        may = self.visit.may_change(page.line.job.user_id)
        key = ("parts", job_id, pinned, words.language, may)
        return await pages.hub.look(key, since, lambda: render(page, may=may))

    async def _tell_log(self, page: JobPage, since: float) -> tuple[list[str], bool]:
        """Fragments of the log's next lines, and whether there are more at once."""
        self._go_to_newest(page)
        if self.place is None:
            return [], False
        shown = _Shown(self.job_id, self.attempt, self.attempt_id, self.node)
        place, words = self.place, self.visit.words
        key = ("log", shown, place, words.language)
        news = await self.pages.hub.look(
            key, since, lambda: read_log_news(self.services, self.pages.look, words, shown, place)
        )
        tail, self.tail, self.place = self.tail, news.tail, news.place
        return ([news.text] if news.has_lines or tail != news.tail else []), news.more

    def _go_to_newest(self, page: JobPage) -> None:
        """A newer attempt's log begins at its own beginning."""
        if page.attempt is None:
            return
        self.attempt_id = page.attempt.id
        if page.attempt.number != self.attempt:
            self.attempt = page.attempt.number
            self.place = Place(0) if self.place is not None else None


@dataclass(frozen=True, slots=True)
class _Shown:
    """Whose log is read: links to its lines name job, attempt and node."""

    job_id: str
    number: int
    attempt: str
    node: int


@dataclass(frozen=True, slots=True)
class LogNews:
    """The next lines of a log as a fragment, and where reading goes on."""

    text: str
    place: Place
    tail: str
    has_lines: bool
    more: bool


async def read_log_news(services: ApiServices, look: Look, words: Words, shown: _Shown, place: Place) -> LogNews:
    """What follows `place`; where that is far behind, the end of the log and how much was passed over."""
    if not shown.attempt:
        return LogNews("", place, "", has_lines=False, more=False)
    logs, passed = await choose_logs(services, shown.job_id, shown.node), 0
    part = await logs.read_part(shown.attempt, place.offset, LOG_PIECE_BYTES)
    if part.received_to - place.offset > BEHIND_BYTES:
        begun, offset = place, part.received_to - JUMP_BYTES
        place = Place(offset, await logs.number_of(shown.attempt, offset), skipping=True)
        passed = place.offset - begun.offset
        part = await logs.read_part(shown.attempt, place.offset, LOG_PIECE_BYTES)
    at_end = part.next_offset >= part.received_to
    if part.gap is not None:
        following = Place(part.next_offset, await logs.number_of(shown.attempt, part.next_offset))
        split = LogPiece((show_missing(Missing(*part.gap)),), None, following)
    else:
        split = split_log(part.content, place, ended=part.ended and at_end)
    of_node = LogAsked(node=shown.node).of_node
    values = {"lines": split.lines, "tail": split.tail, "passed": passed, "of_node": of_node}
    return LogNews(
        text=look.part(words, "live_log.html", job_id=shown.job_id, number=shown.number, **values),
        place=split.place,
        tail="" if split.tail is None else str(split.tail),
        has_lines=bool(split.lines or passed),
        more=split.place != place and not at_end,
    )


def render_parts(look: Look, words: Words, page: JobPage, *, may: bool) -> dict[str, str]:
    """The parts of a job's page that change while it is looked at, by name."""
    return {name: look.part(words, f"job/{name}.html", page=page, history=page.history, may=may) for name in PARTS}


@lru_cache(maxsize=4096)
def render_row(look: Look, words: Words, line: JobLine, *, may: bool) -> str:
    """The fragment that replaces a row of the list; encoded once for all readers who see it alike."""
    return _replace(f"job-{line.job.id}", look.part(words, "jobs_row.html", line=line, may=may, has_ended=has_ended))


def _replace(element: str, fragment: str) -> str:
    return f'<hx-partial hx-target="#{element}" hx-swap="outerMorph">{fragment}</hx-partial>'


def _asks_again(pages: PageServices, request: Request) -> Callable[[], Awaitable[bool]]:
    text = request.cookies.get(SESSION_COOKIE, "")

    async def is_allowed() -> bool:
        return await pages.sessions.find(text, extend=False) is not None

    return is_allowed
