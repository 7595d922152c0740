"""The live parts of the pages of fleets: machines, their GPUs and what is not known, as heartbeats tell it."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from fastapi import APIRouter, Depends
from starlette.responses import Response

from starforge.contract.fleets import FleetDetail
from starforge.errors import NotFound
from starforge_console.wakeups import NODES, QUEUE
from starforge_console.web.deps import Polls
from starforge_console.web.fleet_views import load_detail, load_details
from starforge_console.web.i18n.words import Words
from starforge_console.web.pages import fleet_map
from starforge_console.web.pages.fleet_visit import Asked, FleetVisit
from starforge_console.web.pages.fleets import build_unknown
from starforge_console.web.pages.look import Look
from starforge_console.web.pages.seats import take_seat
from starforge_console.web.pages.visit import SESSION_COOKIE
from starforge_console.web.sse import News, Stream, answer_stream, encode_event

AGAIN_S: Final = 5.0
"""How often a page looks when nothing wakes it, as progress of pulls and jobs of this host's own fleet do not."""
TOPICS: Final = (NODES, QUEUE)

router = APIRouter(include_in_schema=False, dependencies=[Depends(take_seat)])


@router.get("/live/fleets")
async def follow_fleets(asked: Asked, polls: Polls) -> Response:
    """The rows of the list."""
    return answer_stream(_stream(_ListReader(asked).look, asked), polls, asked.services.wakeups)


@router.get("/live/fleets/{fleet}")
async def follow_fleet(asked: Asked, polls: Polls, fleet: str) -> Response:
    """The machines of one fleet, its capacity, and what of it nobody knows."""
    reader = _FleetReader(asked, asked.load_fleet(fleet).name)
    return answer_stream(_stream(reader.look, asked), polls, asked.services.wakeups)


@dataclass(slots=True)
class _ListReader:
    """One reader of the list: tells its rows when one has changed."""

    asked: FleetVisit
    sent: str = ""

    async def look(self, since: float) -> News:
        """All rows, when one has changed."""
        asked = self.asked
        details = await asked.pages.hub.look("fleets", since, self._load)
        text = asked.pages.look.part(asked.visit.words, "fleet/rows.html", details=details, fleet_map=fleet_map)
        if text == self.sent:
            return News()
        self.sent = text
        return News([encode_event(_replace("fleet-rows", text))])

    async def _load(self) -> Sequence[FleetDetail]:
        return await load_details(self.asked.fleets)


@dataclass(slots=True)
class _FleetReader:
    """One reader of a fleet's page: tells the machines that differ from what was sent; all, when one came or went."""

    asked: FleetVisit
    name: str
    sent: dict[str, str] = field(default_factory=dict)

    async def look(self, since: float) -> News:
        """The fragments of what has changed."""
        try:
            detail = await self.asked.pages.hub.look(("fleet", self.name), since, self._load)
        except NotFound:
            return News(over=True)
        parts = await self._render(detail, since)
        if _nodes_of(parts) == _nodes_of(self.sent):
            changed = {element: text for element, text in parts.items() if self.sent.get(element) != text}
        else:
            every = self._part("fleet/nodes.html", detail)
            changed = {"fleet-nodes": every} | {name: text for name, text in parts.items() if not _is_node(name)}
        self.sent = parts
        fragments = [_replace(element, text) for element, text in changed.items()]
        return News([encode_event("\n".join(fragments))] if fragments else [])

    async def _load(self) -> FleetDetail:
        return await load_detail(self.asked.fleets, self.asked.load_fleet(self.name))

    async def _render(self, detail: FleetDetail, since: float) -> dict[str, str]:
        """The parts by their elements: what everybody sees alike is made once, what holds a form for each reader."""
        pages, visit = self.asked.pages, self.asked.visit
        words, look, may = visit.words, pages.look, visit.is_operator

        async def render() -> dict[str, str]:
            return render_nodes(look, words, detail, may=may)

        shared = await pages.hub.look(("fleet-parts", self.name, words.language, may), since, render)
        values = build_unknown(self.asked.fleets, detail)
        unknown = look.part(words, "fleet/unknown.html", visit=visit, may=may, fault=None, **values)
        return shared | {"fleet-unknown": unknown}

    def _part(self, template: str, detail: FleetDetail) -> str:
        words, may = self.asked.visit.words, self.asked.visit.is_operator
        return self.asked.pages.look.part(words, template, detail=detail, may=may, fleet_map=fleet_map)


def render_nodes(look: Look, words: Words, detail: FleetDetail, *, may: bool) -> dict[str, str]:
    """The parts of a fleet's page that change and hold no form, by the ids of their elements."""
    parts = {"fleet-capacity": look.part(words, "fleet/capacity.html", detail=detail, fleet_map=fleet_map)}
    for node in detail.nodes:
        element = fleet_map.name_element(node.name)
        parts[element] = look.part(words, "fleet/node.html", node=node, may=may, fleet_map=fleet_map)
    return parts


def _is_node(element: str) -> bool:
    return element.startswith("node-")


def _nodes_of(parts: dict[str, str]) -> list[str]:
    return [element for element in parts if _is_node(element)]


def _replace(element: str, fragment: str) -> str:
    return f'<hx-partial hx-target="#{element}" hx-swap="outerMorph">{fragment}</hx-partial>'


def _stream(look: Callable[[float], Awaitable[News]], asked: FleetVisit) -> Stream:
    text = asked.request.cookies.get(SESSION_COOKIE, "")

    async def is_allowed() -> bool:
        return await asked.pages.sessions.find(text, extend=False) is not None

    return Stream(topics=lambda: TOPICS, look=look, is_allowed=is_allowed, again_s=AGAIN_S)
