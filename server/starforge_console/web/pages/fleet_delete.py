"""Deletes a fleet: asks first, on a page of its own that says what comes of it."""

from fastapi import APIRouter
from starlette.responses import RedirectResponse, Response

from starforge.errors import Conflict
from starforge_console.web.pages.fleet_visit import Asked, FleetVisit
from starforge_console.web.pages.fleets import NO_STORE, Fault

router = APIRouter(include_in_schema=False)


@router.get("/fleets/{fleet}/delete")
async def ask_to_delete(asked: Asked, fleet: str) -> Response:
    """Say what will come of it, and ask."""
    asked.check_operator()
    return _ask(asked, asked.load_fleet(fleet).name)


@router.post("/fleets/{fleet}/delete")
async def delete(asked: Asked, fleet: str) -> Response:
    """Do it; what is left of the fleet is said where it was asked."""
    await asked.load_form()
    try:
        await asked.fleets.administration.delete_fleet(fleet)
    except Conflict as error:
        return _ask(asked, fleet, Fault(field="", error=error, status=409))
    return RedirectResponse("/fleets?done=deleted", 303, NO_STORE)


def _ask(asked: FleetVisit, name: str, fault: Fault | None = None) -> Response:
    status = fault.status if fault else 200
    return asked.pages.look.page(asked.visit, "fleet_delete.html", status, nav="fleets", name=name, fault=fault)
