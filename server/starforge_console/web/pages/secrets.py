"""The forms of the reader's own secrets, which stand on the page of tokens: set and removed, and never shown."""

from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from starforge.contract.launch import Secret
from starforge.contract.secrets import describe_unmasked
from starforge.errors import StarForgeError
from starforge_console.accounts.sign_in import check_scope
from starforge_console.domain.roles import Scope
from starforge_console.errors import status_of
from starforge_console.web.deps import Services
from starforge_console.web.pages.services import Pages
from starforge_console.web.pages.tokens import show_page
from starforge_console.web.pages.visit import Signed, account_of, load_form, text_of

NAME_LENGTH: Final = 100

router = APIRouter(include_in_schema=False)


@router.post("/secrets")
async def set_secret(pages: Pages, services: Services, visit: Signed, request: Request) -> Response:
    """Set a secret, in place of what had its name before."""
    form = await load_form(request, visit)
    account = account_of(visit)
    check_scope(account, Scope.SUBMIT)
    value = form.get("value", "")
    try:
        secret = Secret(value if isinstance(value, str) else "")
        kept = await services.secrets.put(account, text_of(form, "name", NAME_LENGTH), secret)
    except StarForgeError as error:
        return await show_page((pages, services), visit, status_of(error), secret_fault=error)
    return _go("/tokens?done=set-unmasked" if describe_unmasked(kept.name, secret.reveal()) else "/tokens?done=set")


@router.post("/secrets/{name}/remove")
async def remove_secret(services: Services, visit: Signed, request: Request, name: str) -> Response:
    """Remove a secret; jobs that run keep what they were given."""
    await load_form(request, visit)
    account = account_of(visit)
    check_scope(account, Scope.SUBMIT)
    await services.secrets.remove(account, name)
    return _go("/tokens?done=removed")


def _go(path: str) -> Response:
    return RedirectResponse(path, 303, {"Cache-Control": "no-store"})
