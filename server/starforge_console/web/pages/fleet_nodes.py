"""What administrators do to one machine: each asks first on a page of its own, which says what comes of it."""

from enum import StrEnum
from typing import Final, NamedTuple

from fastapi import APIRouter
from starlette.responses import Response

from starforge.contract.fleets import NodeDetail
from starforge.contract.ids import parse_attempt_id
from starforge.errors import Conflict, InputError, NotFound
from starforge.said.sentence import say
from starforge_console.web.fleet_views import FleetServices, load_detail
from starforge_console.web.pages.fleet_map import list_strangers
from starforge_console.web.pages.fleet_visit import Asked, FleetVisit
from starforge_console.web.pages.fleets import Fault, go_back
from starforge_console.web.pages.visit import text_of

_LONGEST_WHY: Final = 500

router = APIRouter(include_in_schema=False)


class Act(StrEnum):
    """What may be done to a machine, as its address says it."""

    DRAIN = "drain"
    UNDRAIN = "undrain"
    REMOVE = "remove"
    MARK_LOST = "mark-lost"

    @property
    def done(self) -> str:
        """How the fleet's page calls it once it was done."""
        return {"drain": "drained", "undrain": "undrained", "remove": "removed", "mark-lost": "lost"}[self.value]


@router.get("/fleets/{fleet}/nodes/{node}/{act}")
async def ask_to_change(asked: Asked, fleet: str, node: str, act: Act) -> Response:
    """Say what will come of it, and ask."""
    asked.check_operator()
    return _ask(asked, await _load_node(asked, fleet, node), act)


@router.post("/fleets/{fleet}/nodes/{node}/end-unknown")
async def end_unknown(asked: Asked, fleet: str, node: str) -> Response:
    """End a running container of this install that the ledger knows nothing of."""
    form = await asked.load_form()
    detail = await load_detail(asked.fleets, asked.load_fleet(fleet))
    attempt = parse_attempt_id(text_of(form, "attempt", 100))
    if (node, attempt) not in {(one.node, one.attempt) for one in list_strangers(detail)}:
        raise NotFound(say("form.no_unknown", node=f"{node!r:.80}", attempt=attempt), next_step=say("form.look_again"))
    await asked.fleets.administration.end_unknown(node, attempt)
    return go_back(fleet, "ending")


@router.post("/fleets/{fleet}/nodes/{node}/{act}")
async def change(asked: Asked, fleet: str, node: str, act: Act) -> Response:
    """Do it; what cannot be done is said where it was asked."""
    form = await asked.load_form()
    found = await _load_node(asked, fleet, node)
    told = _Told(text_of(form, "why", _LONGEST_WHY), text_of(form, "confirm", 100), text_of(form, "pause") == "yes")
    try:
        await _act(asked.fleets, found, act, told)
    except InputError as error:
        return _ask(asked, found, act, Fault(field="confirm", error=error))
    except Conflict as error:
        return _ask(asked, found, act, Fault(field="", error=error, status=409))
    return go_back(fleet, act.done)


class _Told(NamedTuple):
    """What the form says."""

    why: str
    confirm: str
    pauses: bool


async def _act(fleets: FleetServices, node: NodeDetail, act: Act, told: _Told) -> None:
    administration = fleets.administration
    match act:
        case Act.DRAIN if told.pauses:
            await administration.drain_and_pause(node.name, told.why)
        case Act.DRAIN:
            await administration.drain(node.name, told.why)
        case Act.UNDRAIN:
            await administration.undrain(node.name)
        case Act.REMOVE:
            await administration.remove(node.name)
        case Act.MARK_LOST:
            await administration.mark_lost(node.name, told.confirm)


async def _load_node(asked: FleetVisit, fleet: str, node: str) -> NodeDetail:
    """The machine, if it joined this fleet. Raises NotFound."""
    detail = await load_detail(asked.fleets, asked.load_fleet(fleet))
    found = next((one for one in detail.nodes if one.name == node and one.advertise is not None), None)
    if found is None:
        raise NotFound(
            say("form.not_joined", node=f"{node!r:.80}", fleet=f"{fleet!r:.80}"), next_step=say("form.look_again")
        )
    return found


def _ask(asked: FleetVisit, node: NodeDetail, act: Act, fault: Fault | None = None) -> Response:
    jobs = {one.job: one for one in node.attempts if one.job is not None}
    return asked.pages.look.page(
        asked.visit,
        "fleet_ask.html",
        fault.status if fault else 200,
        nav="fleets",
        node=node,
        act=act.value,
        jobs=[jobs[job] for job in sorted(jobs)],
        fault=fault,
    )
