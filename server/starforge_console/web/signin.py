"""Signing in and out: a personal token or a sign-in code opens a page session."""

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from starforge.errors import Busy, StarForgeError
from starforge_console.accounts.sessions import Caller
from starforge_console.accounts.tokens import PERSONAL_DAYS
from starforge_console.errors import status_of
from starforge_console.web.deps import peer_of
from starforge_console.web.pages.services import Pages, PageServices
from starforge_console.web.pages.visit import FIRST_PAGE, SESSION_COOKIE, Anybody, Visit, load_form, safe_path, text_of

LONGEST_TOKEN: Final = 200

router = APIRouter(include_in_schema=False)

Next = Annotated[str, Query(max_length=2000)]


@router.get("/signin")
async def show_sign_in(pages: Pages, visit: Anybody, next: Next = FIRST_PAGE, ended: str = "") -> Response:  # noqa: A002 - the name in the address
    """The form that takes a personal token."""
    if visit.account is not None:
        return _go(safe_path(next))
    return show_form(pages, visit, after=safe_path(next), notice="signin.ended" if ended else "")


@router.post("/signin")
async def sign_in(pages: Pages, visit: Anybody, request: Request) -> Response:
    """Open a session with a personal token."""
    form = await load_form(request, visit)
    after = safe_path(text_of(form, "next", 2000))
    token = text_of(form, "token", LONGEST_TOKEN)
    try:
        opened = await pages.sessions.open_with_token(token, caller_of(request))
    except StarForgeError as error:
        fault = "signin.busy" if isinstance(error, Busy) else "signin.refused"
        return show_form(pages, visit, status_of(error), after=after, fault=fault)
    answer = _go(after)
    visit.sign_in(opened.text.reveal(), opened.account)
    visit.keep(answer)
    return answer


@router.get("/signin/{code}")
async def show_button(pages: Pages, visit: Anybody, code: str) -> Response:  # noqa: ARG001 - the code is spent by the button alone
    """The page with the button. It says nothing about the code: opening a link, as previews do, spends nothing."""
    return pages.look.page(visit, "signin_link.html", state="ask", login="", days=PERSONAL_DAYS)


@router.post("/signin/{code}")
async def spend_code(pages: Pages, visit: Anybody, request: Request, code: str) -> Response:
    """Spend the code: open a session, and show the personal token that comes with it."""
    await load_form(request, visit)
    try:
        opened, issued = await pages.sessions.open_with_code(code, caller_of(request))
    except StarForgeError as error:
        state = "busy" if isinstance(error, Busy) else "refused"
        return pages.look.page(visit, "signin_link.html", status_of(error), state=state, login="", days=PERSONAL_DAYS)
    visit.sign_in(opened.text.reveal(), opened.account)
    return pages.look.page(
        visit, "signin_link.html", state="done", login=issued.text.reveal(), days=PERSONAL_DAYS, cut_at=issued.cut_at
    )


@router.post("/signout")
async def sign_out(pages: Pages, visit: Anybody, request: Request) -> Response:
    """End the session."""
    await load_form(request, visit)
    text = request.cookies.get(SESSION_COOKIE)
    if text:
        await pages.sessions.close(text)
    answer = _go("/signin")
    answer.delete_cookie(SESSION_COOKIE, httponly=True, samesite="lax", secure=visit.secure)
    return answer


def show_form(  # noqa: PLR0913 - one parameter for each thing that the page may say
    pages: PageServices,
    visit: Visit,
    status: int = 200,
    *,
    after: str = FIRST_PAGE,
    notice: str = "",
    fault: str = "",
    provider_fault: StarForgeError | None = None,
) -> Response:
    """The sign-in page, with what it has to say."""
    provider = pages.oidc.name if pages.oidc.is_set else ""
    said = {"after": after, "notice": notice, "fault": fault, "provider_fault": provider_fault}
    return pages.look.page(visit, "signin.html", status, provider=provider, **said)


def caller_of(request: Request) -> Caller:
    """Where somebody signs in from."""
    return Caller(peer_of(request), request.headers.get("user-agent", ""))


def _go(path: str) -> Response:
    return RedirectResponse(path, 303, {"Cache-Control": "no-store"})
