"""The page that approves a sign-in that a command began: type the code, look at who asks, then approve or deny."""

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from starforge.errors import StarForgeError
from starforge_console.accounts.tokens import LONGEST_DAYS, PERSONAL_DAYS, parse_scopes
from starforge_console.domain.roles import Scope
from starforge_console.errors import status_of
from starforge_console.ledger.device_codes import DeviceRequest
from starforge_console.web.pages.services import Pages, PageServices
from starforge_console.web.pages.tokens import parse_days
from starforge_console.web.pages.visit import Signed, Visit, account_of, load_form, text_of

LONGEST_CODE: Final = 40

router = APIRouter(include_in_schema=False)


@router.get("/device")
async def ask_for_code(
    pages: Pages, visit: Signed, code: Annotated[str, Query(max_length=LONGEST_CODE)] = ""
) -> Response:
    """The form that takes the code; filled in where the address brings it along, which decides nothing."""
    return _show(pages, visit, code=code)


@router.post("/device")
async def look(pages: Pages, visit: Signed, request: Request) -> Response:
    """Say who asks, and ask back."""
    form = await load_form(request, visit)
    code = text_of(form, "code", LONGEST_CODE)
    try:
        found = await pages.devices.find(account_of(visit), code)
    except StarForgeError as error:
        return _show(pages, visit, code=code, fault=error)
    return _show(pages, visit, code=code, found=found)


@router.post("/device/decide")
async def decide(pages: Pages, visit: Signed, request: Request) -> Response:
    """Approve or deny, as the button says."""
    form = await load_form(request, visit)
    account, code = account_of(visit), text_of(form, "code", LONGEST_CODE)
    found = None
    try:
        found = await pages.devices.find(account, code)
        if text_of(form, "do") != "approve":
            return _show(pages, visit, decided=await pages.devices.deny(account, code), done="denied")
        wanted = [scope for scope in form.getlist("scope") if isinstance(scope, str)]
        scopes = parse_scopes(wanted, account.role) & account.scopes
        days = parse_days(text_of(form, "days", 10))
        decided, cut_at = await pages.devices.approve(account, code, scopes, days)
        return _show(pages, visit, decided=decided, done="approved", cut_at=cut_at)
    except StarForgeError as error:
        return _show(pages, visit, code=code, found=found, fault=error)


def _show(  # noqa: PLR0913 - one parameter for each thing that the page may say
    pages: PageServices,
    visit: Visit,
    *,
    code: str = "",
    found: DeviceRequest | None = None,
    decided: DeviceRequest | None = None,
    done: str = "",
    fault: StarForgeError | None = None,
    cut_at: float | None = None,
) -> Response:
    return pages.look.page(
        visit,
        "device.html",
        status_of(fault) if fault else 200,
        nav="tokens",
        code=code,
        found=found,
        decided=decided,
        outcome=done,
        fault=fault,
        cut_at=cut_at,
        scopes=[scope.value for scope in Scope if scope.value in account_of(visit).scopes],
        days=PERSONAL_DAYS,
        longest=LONGEST_DAYS,
    )
