"""The pages of administrators: users with their teams, limits, windows, registries, names of GPUs, and retention."""

import re
from collections.abc import Callable, Coroutine, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from starlette.datastructures import FormData
from starlette.responses import RedirectResponse, Response

from starforge.contract.launch import RegistryLogin, Secret
from starforge.contract.people import MOST, ROLES
from starforge.contract.retention import LONGEST_HOLD_H, SHOWN_AT_MOST
from starforge.errors import InputError, StarForgeError
from starforge.said.sentence import say
from starforge_console.accounts.windows import Hours
from starforge_console.domain.opening import KINDS, WindowKind, WindowOf
from starforge_console.domain.quota import TEAM, USER, Holder, Limit
from starforge_console.errors import status_of
from starforge_console.web.pages import fleet_map
from starforge_console.web.pages.admin_audit import load_audit
from starforge_console.web.pages.fleet_visit import Asked, FleetVisit
from starforge_console.web.pages.fleets import NO_STORE
from starforge_console.web.pages.visit import text_of
from starforge_console.web.retention import HOUR_S
from starforge_console.web.windows import show_window

OPERATORS: Final = ("windows", "hardware", "maintenance", "retention")
ADMINISTRATORS: Final = ("people", "windows", "registries", "hardware", "maintenance", "retention", "audit")

DONE: Final = (
    *("team", "quota", "no_quota", "window", "no_window", "login", "no_login", "series", "no_series"),
    "role",
    *("held", "released", "collected", "in_maintenance", "no_maintenance"),
)
"""What a page says that it was just sent to after, each with words of its own."""
LONGEST: Final = 300
LONGEST_LIST: Final = 20_000
LONGEST_PASSWORD: Final = 16_384
_WHOLE: Final = re.compile(r"[0-9]{1,7}")
_HOURS: Final = re.compile(r"[0-9]{1,3}(\.[0-9]{1,2})?")

Loader = Callable[[FleetVisit], Coroutine[Any, Any, dict[str, Any]]]

router = APIRouter(include_in_schema=False)


@router.get("/admin")
async def show_admin(
    asked: Asked,
    *,
    view: Annotated[str, Query(max_length=20)] = "",
    done: Annotated[str, Query(max_length=20)] = "",
) -> Response:
    """One view of the administration."""
    asked.check_operator()
    views = list_views(asked)
    return await show(asked, view if view in views else views[0], done=f"admin.done.{done}" if done in DONE else "")


@router.post("/admin/team")
async def set_team(asked: Asked) -> Response:
    """Let a user belong to a team, or to none."""
    form = await asked.load_administrators_form()
    user, team = text_of(form, "user", LONGEST), text_of(form, "team", LONGEST)
    try:
        await asked.services.people.set_team(user, team or None)
    except StarForgeError as error:
        return await show(asked, "people", fault=error, at=f"team-{user}")
    return go("people", "team")


@router.post("/admin/quota")
async def set_quota(asked: Asked) -> Response:
    """Limit what a user or a team may hold at once, or let it hold what it will."""
    form = await asked.load_administrators_form()
    try:
        holder = Holder(TEAM if text_of(form, "kind") == TEAM else USER, text_of(form, "name", LONGEST))
        if text_of(form, "do") == "remove":
            await asked.services.people.remove_limit(holder)
            return go("people", "no_quota")
        await asked.services.people.set_limit(holder, _read_limit(form))
    except StarForgeError as error:
        return await show(asked, "people", fault=error, at="quota")
    return go("people", "quota")


@router.post("/admin/window")
async def set_window(asked: Asked) -> Response:
    """Let a fleet, a team or a profile run at times only, or at any time."""
    form = await asked.load_form()
    try:
        of = WindowOf(_read_kind(form), text_of(form, "name", LONGEST))
        if text_of(form, "do") == "remove":
            await asked.services.opening_hours.remove(of)
            return go("windows", "no_window")
        hours = Hours(
            zone=text_of(form, "zone", LONGEST),
            open=_read_lines(form, "open"),
            without=_read_lines(form, "without"),
            goes_on="goes_on" in form,
        )
        await asked.services.opening_hours.put(of, hours, asked.user)
    except StarForgeError as error:
        return await show(asked, "windows", fault=error, at="window")
    return go("windows", "window")


@router.post("/admin/registry")
async def set_registry(asked: Asked) -> Response:
    """Keep how the console signs in to a registry, or forget it."""
    form = await asked.load_administrators_form()
    registry, password = text_of(form, "registry", LONGEST), form.get("password", "")
    try:
        if text_of(form, "do") == "remove":
            await asked.services.registry_logins.remove(registry, asked.user)
            return go("registries", "no_login")
        secret = Secret(password[:LONGEST_PASSWORD] if isinstance(password, str) else "")
        login = RegistryLogin(username=text_of(form, "username", LONGEST), password=secret)
        await asked.services.registry_logins.put(registry, login, asked.user)
    except StarForgeError as error:
        return await show(asked, "registries", fault=error, at="registry")
    return go("registries", "login")


@router.post("/admin/gpu-series")
async def set_series(asked: Asked) -> Response:
    """Give a name of a GPU its series, or forget one that was given."""
    form = await asked.load_form()
    name = text_of(form, "name", LONGEST)
    try:
        if text_of(form, "do") == "remove":
            await asked.fleets.hardware.remove(name)
        else:
            await asked.fleets.hardware.add(name, text_of(form, "series", 100), asked.user)
    except StarForgeError as error:
        return await show(asked, "hardware", fault=error, at="series")
    asked.fleets.administration.tell_of_hardware()
    return go("hardware", "no_series" if text_of(form, "do") == "remove" else "series")


@router.post("/admin/maintenance")
async def change_maintenance(asked: Asked) -> Response:
    """Start nothing any more and pause what runs, or let it all go on."""
    form = await asked.load_form()
    if text_of(form, "do") == "end":
        await asked.services.maintenance.end()
        return go("maintenance", "no_maintenance")
    await asked.services.maintenance.begin(asked.user, text_of(form, "reason", LONGEST))
    return go("maintenance", "in_maintenance")


@router.post("/admin/retention")
async def change_retention(asked: Asked) -> Response:
    """Hold the collector, release it, or let go what may go."""
    form = await asked.load_form()
    collector, act = asked.services.retention, text_of(form, "do")
    try:
        if act == "release":
            await collector.release(asked.user, text_of(form, "hold", LONGEST))
            return go("retention", "released")
        if act == "collect":
            await collector.collect(asked.user)
            return go("retention", "collected")
        await collector.hold(asked.user, text_of(form, "why", LONGEST), _read_hours(form) * HOUR_S)
    except StarForgeError as error:
        return await show(asked, "retention", fault=error, at="retention")
    return go("retention", "held")


async def show(
    asked: FleetVisit, view: str, *, done: str = "", fault: StarForgeError | None = None, at: str = ""
) -> Response:
    """A view of the administration; with a fault, the form `at` which it happened says it."""
    return asked.pages.look.page(
        asked.visit,
        "admin.html",
        status_of(fault) if fault else 200,
        nav="admin",
        view=view,
        views=list_views(asked),
        done=done,
        fault=fault,
        at=at,
        **await _LOADERS[view](asked),
    )


def list_views(asked: FleetVisit) -> tuple[str, ...]:
    """The views that whoever asks may see."""
    return ADMINISTRATORS if asked.visit.is_admin else OPERATORS


async def _load_people(asked: FleetVisit) -> dict[str, Any]:
    people, limits = await asked.services.people.list_all(), await asked.services.people.list_limits()
    teams = sorted(
        {*(one.team for one in people if one.team), *(one.holder.name for one in limits if one.holder.kind == TEAM)}
    )
    told = {"people": people, "limits": limits, "teams": teams, "most": MOST, "series": _list_series(asked)}
    return {**told, "roles": ROLES, "link": ""}


async def _load_windows(asked: FleetVisit) -> dict[str, Any]:
    found = await asked.services.opening_hours.list_all()
    return {"windows": [show_window(one) for one in found], "kinds": KINDS}


async def _load_registries(asked: FleetVisit) -> dict[str, Any]:
    return {"logins": asked.services.registry_logins.list_kept(), "allowed": asked.services.settings.policy.image_allow}


async def _load_hardware(asked: FleetVisit) -> dict[str, Any]:
    return {"added": asked.fleets.hardware.list_added(), "series": _list_series(asked)}


async def _load_maintenance(asked: FleetVisit) -> dict[str, Any]:
    lasts, counts = await asked.services.maintenance.look()
    return {"lasts": lasts, "counts": counts}


async def _load_retention(asked: FleetVisit) -> dict[str, Any]:
    collector = asked.services.retention
    is_asked = asked.request.query_params.get("plan") == "1"
    return {
        "holds": await collector.list_holds(),
        "last": await collector.find_last_run(),
        "plan": await collector.plan(SHOWN_AT_MOST) if is_asked else None,
        "longest": LONGEST_HOLD_H,
        "now": asked.services.clock.now(),
    }


_LOADERS: Final[Mapping[str, Loader]] = MappingProxyType(
    {
        "people": _load_people,
        "windows": _load_windows,
        "registries": _load_registries,
        "hardware": _load_hardware,
        "maintenance": _load_maintenance,
        "retention": _load_retention,
        "audit": load_audit,
    }
)


def _list_series(asked: FleetVisit) -> list[str]:
    return fleet_map.list_known_series([added.series for added in asked.fleets.hardware.list_added()])


def _read_kind(form: FormData) -> WindowKind:
    kinds = {str(kind): kind for kind in KINDS}
    kind = text_of(form, "kind", 20)
    if kind not in kinds:
        raise InputError(
            say("form.no_windows_of", kind=repr(kind)), next_step=say("form.one_of", options=", ".join(kinds))
        )
    return kinds[kind]


def _read_lines(form: FormData, name: str) -> list[str]:
    return [line.strip() for line in text_of(form, name, LONGEST_LIST).splitlines() if line.strip()]


def _read_limit(form: FormData) -> Limit:
    counts = {name: _read_count(form, name) for name in ("gpus", "jobs", "gpu_hours", "storage_gib")}
    limit = Limit(**counts, series=_read_names(form, "series"), profiles=_read_names(form, "profiles"))
    if limit == Limit():
        raise InputError(say("form.no_limit_given"), next_step=say("form.no_limit_given_next"))
    return limit


def _read_names(form: FormData, part: str) -> frozenset[str] | None:
    return frozenset(name.strip() for name in text_of(form, part, 2000).split(",") if name.strip()) or None


def _read_count(form: FormData, name: str) -> int | None:
    text = text_of(form, name, 20)
    if text and (not _WHOLE.fullmatch(text) or int(text) > MOST):
        raise InputError(
            say("form.no_number", text=repr(text), of=name.replace("_", "-")),
            next_step=say("form.whole_or_empty", most=MOST),
        )
    return int(text) if text else None


def _read_hours(form: FormData) -> float:
    text = text_of(form, "hours", 20)
    if not _HOURS.fullmatch(text) or not 0 < float(text) <= LONGEST_HOLD_H:
        raise InputError(
            say("form.no_hold", text=repr(text)), next_step=say("form.no_hold_next", most=f"{LONGEST_HOLD_H:g}")
        )
    return float(text)


def go(view: str, done: str) -> Response:
    """Back to the view, which says what was done."""
    return RedirectResponse(f"/admin?view={view}&done={done}", 303, NO_STORE)
