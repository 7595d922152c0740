"""The live parts of the overview and of the queue: those whose text has changed, as finished fragments."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fastapi import APIRouter, Depends
from starlette.responses import Response

from starforge_console.wakeups import JOBS, NODES, QUEUE
from starforge_console.web.deps import Polls
from starforge_console.web.pages import overview, queue
from starforge_console.web.pages.fleet_visit import Asked, FleetVisit
from starforge_console.web.pages.queue import After, Series
from starforge_console.web.pages.seats import take_seat
from starforge_console.web.pages.side import load_side
from starforge_console.web.pages.visit import SESSION_COOKIE, account_of
from starforge_console.web.sse import News, Stream, answer_stream, encode_event

AGAIN_S: Final = 5.0
"""How often a page looks when nothing wakes it: a machine that is not heard from wakes nobody."""
TOPICS: Final = (JOBS, QUEUE, NODES)

router = APIRouter(include_in_schema=False, dependencies=[Depends(take_seat)])


@router.get("/live/overview")
async def follow_overview(asked: Asked, polls: Polls) -> Response:
    """The parts of the overview."""

    async def load() -> dict[str, Any]:
        return await overview.load_overview(asked.services, asked.fleets, asked.user)

    return _answer(_Reader(asked, "overview", overview.PARTS, ("overview", asked.user), load), polls)


@router.get("/live/queue")
async def follow_queue(asked: Asked, polls: Polls, *, series: Series = "", after: After = 0) -> Response:
    """The parts of the queue's page."""
    account = account_of(asked.visit)

    async def load() -> dict[str, Any]:
        return await queue.load_queue_page(asked.services, account, series, after)

    key = ("queue-page", account.user_id, account.role, series, after)
    return _answer(_Reader(asked, "queue", queue.PARTS, key, load), polls)


@dataclass(slots=True)
class _Reader:
    """One reader of a page: tells the parts that differ from what was sent. What it looks at is shared under `key`."""

    asked: FleetVisit
    page: str
    parts: Sequence[str]
    key: tuple[object, ...]
    load: Callable[[], Awaitable[dict[str, Any]]]
    sent: dict[str, str] = field(default_factory=dict)

    async def look(self, since: float) -> News:
        """The parts that have changed."""
        pages, visit = self.asked.pages, self.asked.visit
        values = await pages.hub.look(self.key, since, self.load)
        fragments = []
        side = await load_side(pages, self.asked.services, visit.words, since)
        if self.sent.get("side") != side:
            self.sent["side"] = side
            fragments.append(side)
        for part in self.parts:
            text = pages.look.part(visit.words, f"{self.page}/{part}.html", visit=visit, **values)
            if self.sent.get(part) != text:
                self.sent[part] = text
                fragments.append(
                    f'<hx-partial hx-target="#{self.page}-{part}" hx-swap="outerMorph">{text}</hx-partial>'
                )
        return News([encode_event("\n".join(fragments))] if fragments else [])


def _answer(reader: _Reader, polls: Polls) -> Response:
    asked = reader.asked
    text = asked.request.cookies.get(SESSION_COOKIE, "")

    async def is_allowed() -> bool:
        return await asked.pages.sessions.find(text, extend=False) is not None

    stream = Stream(topics=lambda: TOPICS, look=reader.look, is_allowed=is_allowed, again_s=AGAIN_S)
    return answer_stream(stream, polls, asked.services.wakeups)
