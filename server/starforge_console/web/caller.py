"""Routes about who asks: whose token it is, its end, and what its user may hold."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from starforge.contract.api import WhoAmI
from starforge.contract.quotas import Held, QuotaList, QuotaView
from starforge_console.domain.quota import QuotaLine
from starforge_console.ledger.quotas import list_own
from starforge_console.web.deps import Reader, Services
from starforge_console.web.problems import problem_responses

router = APIRouter(tags=["console"])


@router.get("/whoami", responses=problem_responses(401, 403))
async def describe_caller(account: Reader) -> WhoAmI:
    """Whose token this is, and what it may do."""
    return WhoAmI(
        user=account.user,
        role="admin" if account.role == "admin" else "member",
        scopes=tuple(sorted(account.scopes)),
        token_expires_at=account.expires_at,
    )


@router.get("/quotas", responses=problem_responses(401, 403))
async def list_own_quotas(services: Services, account: Reader) -> QuotaList:
    """What limits the caller's jobs, the team's limit among it, and what is held under it now."""
    lines = await services.ledger.read(lambda c: list_own(c, account.user_id))
    return QuotaList(items=tuple(map(show_quota, lines)))


@router.post("/tokens/revoke-self", status_code=204, responses=problem_responses(401, 403))
async def revoke_own_token(services: Services, _account: Reader, request: Request) -> Response:
    """End the token that this request carries, at once."""
    await services.accounts.revoke(request.headers.get("authorization"))
    return Response(status_code=204)


def show_quota(line: QuotaLine) -> QuotaView:
    """A limit as a message."""
    limit = line.limit
    return QuotaView(
        kind=line.holder.kind,
        name=line.holder.name,
        gpus=limit.gpus,
        jobs=limit.jobs,
        series=None if limit.series is None else tuple(sorted(limit.series)),
        held=Held(gpus=line.gpus, jobs=line.jobs),
    )
