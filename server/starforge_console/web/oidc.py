"""Signing in through the identity provider: away to it, and back."""

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from starforge.errors import NotFound, StarForgeError
from starforge.said.sentence import say
from starforge_console.accounts.oidc import CALLBACK, JOURNEY_S, Arrival
from starforge_console.errors import status_of
from starforge_console.web.pages.services import Pages, PageServices
from starforge_console.web.pages.visit import FIRST_PAGE, Anybody, Visit, safe_path
from starforge_console.web.signin import caller_of, show_form

START: Final = "/oidc/start"
_NO_STORE: Final = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}

router = APIRouter(include_in_schema=False)

Text = Annotated[str, Query(max_length=4000)]


@router.get(START)
async def depart(pages: Pages, visit: Anybody, next: Text = FIRST_PAGE) -> Response:  # noqa: A002 - the name in the address
    """Send the browser to the provider."""
    _require(pages)
    try:
        departure = await pages.oidc.depart(safe_path(next))
    except StarForgeError as error:
        return _refuse(pages, visit, error)
    answer = RedirectResponse(departure.address, 303, _NO_STORE)
    answer.set_cookie(
        _cookie_of(visit),
        departure.luggage.reveal(),
        max_age=JOURNEY_S,
        httponly=True,
        samesite="lax",
        secure=visit.secure,
    )
    return answer


@router.get(CALLBACK)
async def arrive(  # noqa: PLR0913 - one parameter for each that a provider may send
    pages: Pages,
    visit: Anybody,
    request: Request,
    *,
    code: Text = "",
    state: Text = "",
    iss: Text = "",
    error: Text = "",
) -> Response:
    """Open a session for whoever the provider says has come back."""
    _require(pages)
    luggage, caller = request.cookies.get(_cookie_of(visit), ""), caller_of(request)
    arrival = Arrival(code=code, state=state, issuer=iss, error=error, luggage=luggage)
    try:
        user, after = await pages.oidc.arrive(arrival, caller.peer)
    except StarForgeError as fault:
        await pages.sessions.note_failure(say("way.provider"), caller)
        return _forget(_refuse(pages, visit, fault), visit)
    opened = await pages.sessions.open_for(user, say("way.provider"), caller, pages.oidc.longest_s)
    visit.sign_in(opened.text.reveal(), opened.account)
    answer = RedirectResponse(safe_path(after), 303, _NO_STORE)
    visit.keep(answer)
    return _forget(answer, visit)


def _require(pages: PageServices) -> None:
    if not pages.oidc.is_set:
        raise NotFound(say("fault.no_provider"), next_step=say("fault.no_provider_next"))


def _cookie_of(visit: Visit) -> str:
    """The name under which the browser keeps its luggage; with the prefix no other host of the domain can set it."""
    return "__Host-starforge_oidc" if visit.secure else "starforge_oidc"


def _refuse(pages: PageServices, visit: Visit, error: StarForgeError) -> Response:
    return show_form(pages, visit, status_of(error), provider_fault=error)


def _forget(answer: Response, visit: Visit) -> Response:
    """What a sign-in was begun with serves once."""
    answer.delete_cookie(_cookie_of(visit), httponly=True, samesite="lax", secure=visit.secure)
    return answer
