"""The page of tokens: who can sign in with what, until when; made, shown once, and revoked."""

import re
from typing import Annotated, Final

from fastapi import APIRouter, Path, Request
from starlette.responses import RedirectResponse, Response

from starforge.errors import InputError
from starforge_console.accounts.sessions import SESSION
from starforge_console.accounts.tokens import LONGEST_DAYS, PERSONAL_DAYS, Scope, parse_scopes
from starforge_console.web.deps import Services
from starforge_console.web.follow import LARGEST
from starforge_console.web.pages.services import Pages, PageServices
from starforge_console.web.pages.visit import Signed, Visit, account_of, load_form, text_of

LABEL_LENGTH: Final = 100

router = APIRouter(include_in_schema=False)

_DAYS: Final = re.compile(r"[0-9]{1,4}")

TokenId = Annotated[int, Path(ge=1, le=LARGEST)]


@router.get("/tokens")
async def show_tokens(pages: Pages, services: Services, visit: Signed) -> Response:
    """The list, with the form that makes another one."""
    return await _show(pages, visit, services.clock.now())


@router.post("/tokens")
async def make_token(pages: Pages, services: Services, visit: Signed, request: Request) -> Response:
    """Make a token and show it, this one time."""
    form = await load_form(request, visit)
    account = account_of(visit)
    label, days = text_of(form, "label", LABEL_LENGTH), text_of(form, "days", 10)
    wanted = [scope for scope in form.getlist("scope") if isinstance(scope, str)]
    try:
        scopes = parse_scopes(wanted, account.role) & account.scopes
        issued = await pages.sessions.make_token(account, scopes, label, _parse_days(days))
    except InputError as error:
        return await _show(pages, visit, services.clock.now(), fault=error, status=422)
    return await _show(pages, visit, services.clock.now(), made=issued.text.reveal())


@router.post("/tokens/{token_id}/revoke")
async def revoke_token(pages: Pages, visit: Signed, request: Request, token_id: TokenId) -> Response:
    """End a token and the sessions that it opened."""
    await load_form(request, visit)
    await pages.sessions.revoke(account_of(visit), token_id)
    return RedirectResponse("/tokens?done=revoked", 303, {"Cache-Control": "no-store"})


async def _show(  # noqa: PLR0913 - what the page may have to say
    pages: PageServices,
    visit: Visit,
    now: float,
    *,
    made: str = "",
    fault: InputError | None = None,
    status: int = 200,
) -> Response:
    account = account_of(visit)
    found = await pages.sessions.list_for(account)
    return pages.look.page(
        visit,
        "tokens.html",
        status,
        nav="tokens",
        personal=[token for token in found if token.kind != SESSION],
        sessions=[token for token in found if token.kind == SESSION],
        scopes=[scope.value for scope in Scope if scope.value in account.scopes],
        days=PERSONAL_DAYS,
        longest=LONGEST_DAYS,
        made=made,
        fault=fault,
        now=now,
        done="tokens.revoked" if visit.here.endswith("?done=revoked") else "",
    )


def _parse_days(text: str) -> int:
    days = int(text) if _DAYS.fullmatch(text) else 0
    if not 1 <= days <= LONGEST_DAYS:
        raise InputError(
            f"a token cannot live {text!r} days", next_step=f"choose a whole number between 1 and {LONGEST_DAYS}"
        )
    return days
