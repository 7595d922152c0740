"""One user as administrators see them: role, whether they may sign in, and a link to sign in with."""

from typing import Annotated, Final

from fastapi import APIRouter, Path, Query
from starlette.responses import RedirectResponse, Response

from starforge.contract.people import ROLES
from starforge.errors import InputError, StarForgeError
from starforge.said.sentence import say
from starforge_console.domain.roles import Role
from starforge_console.errors import status_of
from starforge_console.web.pages.admin import LONGEST, go, show
from starforge_console.web.pages.fleet_visit import Asked, FleetVisit
from starforge_console.web.pages.fleets import NO_STORE
from starforge_console.web.pages.visit import account_of, text_of

DONE: Final = ("added", "role", "activated", "deactivated")

router = APIRouter(include_in_schema=False)

Name = Annotated[str, Path(max_length=100)]


@router.post("/admin/users")
async def add_user(asked: Asked) -> Response:
    """Add a user, and show them: the link to sign in with is made there."""
    form = await asked.load_administrators_form()
    name = text_of(form, "name", LONGEST)
    try:
        await asked.services.people.add(name, _read_role(text_of(form, "role", 20)))
    except StarForgeError as error:
        return await show(asked, "people", fault=error, at="user")
    return _go(name, "added")


@router.get("/admin/users/{name}")
async def show_user(asked: Asked, name: Name, *, done: Annotated[str, Query(max_length=20)] = "") -> Response:
    """One user."""
    asked.check_administrator()
    return await _show(asked, name, done=f"admin.done.{done}" if done in DONE else "")


@router.post("/admin/users/{name}/role")
async def set_role(asked: Asked, name: Name) -> Response:
    """Give the user another role."""
    form = await asked.load_administrators_form()
    try:
        await asked.services.people.set_role(name, _read_role(text_of(form, "role", 20)))
    except StarForgeError as error:
        return await _show(asked, name, fault=error)
    return go("people", "role") if name == asked.user else _go(name, "role")


@router.post("/admin/users/{name}/active")
async def set_active(asked: Asked, name: Name) -> Response:
    """Let the user sign in, or not any more."""
    form = await asked.load_administrators_form()
    active = text_of(form, "do") == "activate"
    try:
        await asked.services.people.set_active(name, active=active)
    except StarForgeError as error:
        return await _show(asked, name, fault=error)
    return _go(name, "activated" if active else "deactivated")


@router.post("/admin/users/{name}/link")
async def make_link(asked: Asked, name: Name) -> Response:
    """Make a link to sign in with, and show it, this one time."""
    await asked.load_administrators_form()
    try:
        made = await asked.services.people.make_link(name, account_of(asked.visit))
    except StarForgeError as error:
        return await _show(asked, name, fault=error)
    address = asked.services.settings.http.public_url.rstrip("/")
    return await _show(asked, name, link=f"{address}/signin/{made.text.reveal()}", cut_at=made.cut_at)


async def _show(  # noqa: PLR0913 - one parameter for each thing that the page may say
    asked: FleetVisit,
    name: str,
    *,
    done: str = "",
    fault: StarForgeError | None = None,
    link: str = "",
    cut_at: float | None = None,
) -> Response:
    return asked.pages.look.page(
        asked.visit,
        "admin_user.html",
        status_of(fault) if fault else 200,
        nav="admin",
        person=await asked.services.people.load(name),
        roles=ROLES,
        done=done,
        fault=fault,
        link=link,
        cut_at=cut_at,
    )


def _read_role(text: str) -> Role:
    if text not in ROLES:
        raise InputError(
            say("form.no_role", role=f"{text!r:.40}"), next_step=say("form.one_of", options=", ".join(ROLES))
        )
    return Role(text)


def _go(name: str, done: str) -> Response:
    return RedirectResponse(f"/admin/users/{name}?done={done}", 303, NO_STORE)
