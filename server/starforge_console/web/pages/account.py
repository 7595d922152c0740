"""The reader's own page: who is signed in until when, what binds their jobs, language and theme."""

from fastapi import APIRouter
from starlette.responses import Response

from starforge_console.domain.quota import NO_LIMIT
from starforge_console.ledger.quotas import list_members
from starforge_console.ledger.statements import list_own
from starforge_console.web.deps import Services
from starforge_console.web.pages.services import Pages
from starforge_console.web.pages.visit import Signed, account_of

router = APIRouter(include_in_schema=False)


@router.get("/account")
async def show_account(pages: Pages, services: Services, visit: Signed) -> Response:
    """Who the reader is to the console."""
    account, now = account_of(visit), services.clock.now()
    own, members = await services.ledger.read(lambda c: (list_own(c, account.user_id, now), list_members(c)))
    return pages.look.page(
        visit,
        "account.html",
        nav="account",
        account=account,
        team=members[account.user_id].team,
        quotas=[line for line in own if line.limit != NO_LIMIT],
    )
