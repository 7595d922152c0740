"""Routes about who asks: whose token it is, its end, and what its user may hold."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from starforge.contract.api import WhoAmI
from starforge.contract.quotas import QuotaList
from starforge_console.accounts.quota_views import show_quota
from starforge_console.ledger.statements import list_own
from starforge_console.web.deps import Reader, Services
from starforge_console.web.problems import problem_responses

router = APIRouter(tags=["console"])


@router.get("/whoami", responses=problem_responses(401, 403))
async def describe_caller(account: Reader) -> WhoAmI:
    """Whose token this is, and what it may do."""
    return WhoAmI(
        user=account.user,
        role=account.role,
        scopes=tuple(sorted(account.scopes)),
        token_expires_at=account.expires_at,
    )


@router.get("/quotas", responses=problem_responses(401, 403))
async def list_own_quotas(services: Services, account: Reader) -> QuotaList:
    """What limits the caller's jobs, the team's limit among it, and which runs count against it now."""
    now = services.clock.now()
    lines = await services.ledger.read(lambda c: list_own(c, account.user_id, now))
    return QuotaList(items=tuple(map(show_quota, lines)))


@router.post("/tokens/revoke-self", status_code=204, responses=problem_responses(401, 403))
async def revoke_own_token(services: Services, account: Reader, request: Request) -> Response:
    """End the token that this request carries, at once."""
    await services.accounts.revoke(account, request.headers.get("authorization"))
    return Response(status_code=204)
