"""Routes about the token that a request carries: whose it is, and its end."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from starforge.contract.api import WhoAmI
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


@router.post("/tokens/revoke-self", status_code=204, responses=problem_responses(401, 403))
async def revoke_own_token(services: Services, _account: Reader, request: Request) -> Response:
    """End the token that this request carries, at once."""
    await services.accounts.revoke(request.headers.get("authorization"))
    return Response(status_code=204)
