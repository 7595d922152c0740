"""The page of tokens: who can sign in with what, until when; made, shown once, and revoked.

It holds the reader's own secrets, too, whose forms `pages.secrets` takes.
"""

import re
from typing import Annotated, Final

from fastapi import APIRouter, Path, Request
from starlette.responses import RedirectResponse, Response

from starforge.errors import InputError
from starforge.said.sentence import say
from starforge_console.accounts.sessions import SESSION
from starforge_console.accounts.tokens import LONGEST_DAYS, PERSONAL_DAYS, find_label, parse_scopes
from starforge_console.domain.roles import Scope
from starforge_console.web.deps import ApiServices, Services
from starforge_console.web.log_lines import LARGEST
from starforge_console.web.pages.services import Pages, PageServices
from starforge_console.web.pages.visit import Signed, Visit, account_of, load_form, text_of

LABEL_LENGTH: Final = 100

router = APIRouter(include_in_schema=False)

_DONE: Final = {
    "revoked": "tokens.revoked",
    "ended": "tokens.others_ended",
    "set": "tokens.secret_set",
    "set-unmasked": "tokens.secret_unmasked",
    "removed": "tokens.secret_removed",
}
_DAYS: Final = re.compile(r"[0-9]{1,4}")

TokenId = Annotated[int, Path(ge=1, le=LARGEST)]


@router.get("/tokens")
async def show_tokens(pages: Pages, services: Services, visit: Signed) -> Response:
    """The list, with the form that makes another one."""
    return await show_page((pages, services), visit)


@router.post("/tokens")
async def make_token(pages: Pages, services: Services, visit: Signed, request: Request) -> Response:
    """Make a token and show it, this one time."""
    form = await load_form(request, visit)
    account = account_of(visit)
    label, days = text_of(form, "label", LABEL_LENGTH), text_of(form, "days", 10)
    wanted = [scope for scope in form.getlist("scope") if isinstance(scope, str)]
    try:
        scopes = parse_scopes(wanted, account.role) & account.scopes
        issued = await pages.sessions.make_token(account, scopes, label, parse_days(days))
    except InputError as error:
        return await show_page((pages, services), visit, fault=error, status=422)
    return await show_page((pages, services), visit, made=issued.text.reveal(), cut_at=issued.cut_at)


@router.post("/tokens/{token_id}/revoke")
async def revoke_token(pages: Pages, visit: Signed, request: Request, token_id: TokenId) -> Response:
    """End a token and the sessions that it opened."""
    await load_form(request, visit)
    await pages.sessions.revoke(account_of(visit), token_id)
    return RedirectResponse("/tokens?done=revoked", 303, {"Cache-Control": "no-store"})


@router.post("/tokens/end-others")
async def end_others(pages: Pages, visit: Signed, request: Request) -> Response:
    """End all of the reader's own sessions and tokens but the one in use, and the token that opened it."""
    await load_form(request, visit)
    await pages.sessions.end_others(account_of(visit))
    return RedirectResponse("/tokens?done=ended", 303, {"Cache-Control": "no-store"})


async def show_page(
    behind: tuple[PageServices, ApiServices],
    visit: Visit,
    status: int = 200,
    **said: object,
) -> Response:
    """The page with what it has to say: `made`, a token; `fault`, of its form; `secret_fault`, of that of secrets."""
    account, (pages, services) = account_of(visit), behind
    found = await pages.sessions.list_for(account, everybody=account.administers)
    return pages.look.page(
        visit,
        "tokens.html",
        status,
        nav="tokens",
        find_label=find_label,
        personal=[token for token in found if token.kind != SESSION],
        sessions=[token for token in found if token.kind == SESSION],
        scopes=[scope.value for scope in Scope if scope.value in account.scopes],
        days=PERSONAL_DAYS,
        longest=LONGEST_DAYS,
        secrets=await services.secrets.list_for(account) if visit.may_submit else [],
        current=account.token_id,
        now=services.clock.now(),
        done=_DONE.get(visit.here.rpartition("?done=")[2], ""),
        **{"made": "", "cut_at": None, "fault": None, "secret_fault": None, **said},
    )


def parse_days(text: str) -> int:
    """How many days a token shall live. Raises InputError."""
    days = int(text) if _DAYS.fullmatch(text) else 0
    if not 1 <= days <= LONGEST_DAYS:
        raise InputError(say("form.no_days", days=repr(text)), next_step=say("form.whole_days_next", most=LONGEST_DAYS))
    return days
