"""The pages of fleets: the list, a new one, one with its machines, its join tokens, and names of GPUs."""

import re
from dataclasses import dataclass, replace
from typing import Annotated, Final

from fastapi import APIRouter, Path
from starlette.datastructures import FormData
from starlette.responses import RedirectResponse, Response

from starforge.contract.bounds import LARGEST_NUMBER
from starforge.contract.fleets import FleetDetail
from starforge.contract.launch import Network
from starforge.errors import Conflict, InputError, StarForgeError
from starforge.said.sentence import say
from starforge_console.fleets.administration import LONGEST_HOURS, MOST_USES, TOKEN_HOURS, TOKEN_USES
from starforge_console.fleets.join_lines import build_checked_line, build_join_lines
from starforge_console.fleets.served import build_fleet, check_fleet_name, check_job_user
from starforge_console.settings.console import FleetKind
from starforge_console.web.deps import ApiServices
from starforge_console.web.fleet_views import FleetServices, load_detail, load_details
from starforge_console.web.install import Ways
from starforge_console.web.pages import fleet_map
from starforge_console.web.pages.fleet_visit import Asked, FleetVisit
from starforge_console.web.pages.visit import Visit, text_of
from starforge_console.wheels.script import build_script

NETWORKS: Final = tuple(network.value for network in Network)
DONE: Final = (
    *("drained", "undrained", "removed", "lost", "ending", "revoked", "added", "forgotten", "made", "deleted"),
    *("limited", "unlimited"),
)
"""What a page says that it was just sent to after, each with words of its own."""
_NUMBER: Final = re.compile(r"[0-9]{1,6}(\.[0-9]{1,3})?")
_WHOLE: Final = re.compile(r"[0-9]{1,6}")
NO_STORE: Final = {"Cache-Control": "no-store"}

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A join token that is shown this once: its lines by the tool, and what speaks against them."""

    lines: dict[str, str]
    doubt: str
    ca_fault: str
    uses: int
    expires_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why a form was not taken, and the field that is at fault."""

    field: str
    error: StarForgeError
    status: int = 422


@router.get("/fleets")
async def show_fleets(asked: Asked) -> Response:
    """All fleets with their capacity by state, and the names of GPUs that administrators added."""
    return asked.pages.look.page(
        asked.visit,
        "fleets.html",
        nav="fleets",
        details=await load_details(asked.fleets),
        fleet_map=fleet_map,
        added=asked.fleets.hardware.list_added(),
        done=find_done(asked.visit),
    )


@router.get("/new-fleet")
async def ask_for_fleet(asked: Asked) -> Response:
    """The form that makes a fleet."""
    asked.check_operator()
    return _show_new(asked, {"network": Network.BRIDGE.value})


@router.post("/new-fleet")
async def make_fleet(asked: Asked) -> Response:
    """Make a fleet of machines that join, and show it; a form that cannot be taken comes back with what to mend."""
    form = await asked.load_form()
    given = {name: text_of(form, name, 100) for name in ("name", "network", "user", "require_max_runtime")}
    fault = await _make(asked.fleets, given)
    if fault is not None:
        return _show_new(asked, given, fault)
    return RedirectResponse(f"/fleets/{given['name']}?done=made", 303, NO_STORE)


@router.get("/fleets/{fleet}")
async def show_fleet(asked: Asked, fleet: str) -> Response:
    """One fleet: its machines with a map of their GPUs, what is not known, and how a machine joins."""
    return await _show(asked, fleet)


@router.post("/fleets/{fleet}/limit")
async def change_limit(asked: Asked, fleet: str) -> Response:
    """Let the fleet take only jobs with a time limit, or all again."""
    requires = text_of(await asked.load_form(), "require_max_runtime") == "yes"
    asked.load_fleet(fleet)
    await asked.fleets.fleets.require_limit(fleet, asked.user, requires=requires)
    return go_back(fleet, "limited" if requires else "unlimited")


@router.post("/fleets/{fleet}/join-tokens")
async def mint_token(asked: Asked, ways: Ways, fleet: str) -> Response:
    """Make a join token, and show the lines to paste, this one time."""
    form = await asked.load_form()
    try:
        hours, uses = _read_number(form, "hours"), _read_number(form, "uses")
        minted = await asked.fleets.administration.mint_token(fleet, asked.user, hours, int(uses))
    except InputError as error:
        return await _show(asked, fleet, fault=Fault(field="token", error=error))
    lines, ca_fault = _build_lines(asked.services, fleet, minted.text.reveal())
    made = Made(
        lines=lines,
        doubt=ways.doubt,
        ca_fault=ca_fault,
        uses=minted.kept.uses_left,
        expires_at=minted.kept.expires_at,
    )
    return await _show(asked, fleet, made=made)


@router.post("/fleets/{fleet}/join-tokens/{token_id}/revoke")
async def revoke_token(asked: Asked, fleet: str, token_id: Annotated[int, Path(ge=1, le=LARGEST_NUMBER)]) -> Response:
    """Let no machine in any more with this token."""
    await asked.load_form()
    await asked.fleets.administration.revoke_token(fleet, token_id)
    return go_back(fleet, "revoked")


@router.post("/fleets/{fleet}/gpu-series")
async def add_series(asked: Asked, fleet: str) -> Response:
    """Give a name of a GPU its series; jobs that wait for it are looked at again at once."""
    form = await asked.load_form()
    name, series = text_of(form, "name", 300), text_of(form, "series", 100)
    try:
        await asked.fleets.hardware.add(name, series, asked.user)
    except InputError as error:
        return await _show(asked, fleet, fault=Fault(field=name, error=error))
    asked.fleets.administration.tell_of_hardware()
    return go_back(fleet, "added")


@router.post("/gpu-series/remove")
async def remove_series(asked: Asked) -> Response:
    """Forget a name of a GPU that an administrator added."""
    form = await asked.load_form()
    await asked.fleets.hardware.remove(text_of(form, "name", 300))
    asked.fleets.administration.tell_of_hardware()
    return RedirectResponse("/fleets?done=forgotten", 303, NO_STORE)


def go_back(fleet: str, done: str) -> Response:
    """Back to the fleet's page, which says what was done."""
    return RedirectResponse(f"/fleets/{fleet}?done={done}", 303, NO_STORE)


def find_done(visit: Visit) -> str:
    """The message of what was just done, by the page's address; empty when it names nothing."""
    _, _, done = visit.here.partition("?done=")
    return f"fleets.done.{done}" if done in DONE else ""


def build_unknown(fleets: FleetServices, detail: FleetDetail) -> dict[str, object]:
    """What of the fleet nobody knows: GPUs without a series, with the series to choose from, and containers."""
    return {
        "unknown": fleet_map.list_unknown_gpus(detail),
        "strangers": fleet_map.list_strangers(detail),
        "series": fleet_map.list_known_series([added.series for added in fleets.hardware.list_added()]),
        "name": detail.fleet.name,
    }


async def _make(fleets: FleetServices, given: dict[str, str]) -> Fault | None:
    """Make the fleet that the form asks for; gives why it cannot be made."""
    user, field = given["user"] or None, "name"
    try:
        check_fleet_name(given["name"])
        field = "user"
        check_job_user(user)
        field = "network"
        fleet = build_fleet(given["name"], FleetKind.NODE.value, given["network"], user)
        field = "name"
        await fleets.fleets.create(replace(fleet, requires_limit=given["require_max_runtime"] == "yes"))
    except InputError as error:
        return Fault(field=field, error=error)
    except Conflict as error:
        return Fault(field=field, error=error, status=409)
    return None


def _show_new(asked: FleetVisit, given: dict[str, str], fault: Fault | None = None) -> Response:
    return asked.pages.look.page(
        asked.visit,
        "fleet_new.html",
        fault.status if fault else 200,
        nav="fleets",
        given={"name": "", "user": "", "require_max_runtime": ""} | given,
        networks=NETWORKS,
        fault=fault,
    )


async def _show(asked: FleetVisit, name: str, *, made: Made | None = None, fault: Fault | None = None) -> Response:
    fleets, visit = asked.fleets, asked.visit
    detail = await load_detail(fleets, asked.load_fleet(name))
    may_join = visit.is_operator and detail.fleet.kind == FleetKind.NODE
    return asked.pages.look.page(
        visit,
        "fleet.html",
        fault.status if fault else 200,
        nav="fleets",
        detail=detail,
        fleet_map=fleet_map,
        may=visit.is_operator,
        may_join=may_join,
        tokens=await fleets.administration.list_tokens(name) if may_join else (),
        terms={"hours": TOKEN_HOURS, "longest": LONGEST_HOURS, "uses": TOKEN_USES, "most": MOST_USES},
        made=made,
        fault=fault,
        done=find_done(visit),
        **build_unknown(fleets, detail),
    )


def _build_lines(services: ApiServices, fleet: str, token: str) -> tuple[dict[str, str], str]:
    """The lines by the tool, and why there is none for a private CA although one is set."""
    http = services.settings.http
    lines = dict(build_join_lines(http.public_url, fleet, token))
    if http.public_ca_file is None:
        return lines, ""
    try:
        script = build_script(http.public_url, http.public_ca_file)
    except StarForgeError as error:
        return lines, str(error)
    return lines | {"private_ca": build_checked_line(http.public_url, fleet, token, script)}, ""


def _read_number(form: FormData, name: str) -> float:
    text = text_of(form, name, 20)
    if not (_NUMBER if name == "hours" else _WHOLE).fullmatch(text):
        raise InputError(say("form.no_number", text=repr(text), of=name), next_step=say("form.number_next"))
    return float(text)
