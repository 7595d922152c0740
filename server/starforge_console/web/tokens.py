"""Routes of personal tokens and page sessions: listed and ended. None makes one: a token must not outlive itself."""

from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from starforge.contract.bounds import LARGEST_NUMBER
from starforge.contract.tokens import OthersEnded, TokenList, TokenView
from starforge_console.accounts.sessions import SESSION
from starforge_console.ledger.accounts import Account
from starforge_console.ledger.tokens import TokenRecord
from starforge_console.web.deps import Reader
from starforge_console.web.pages.services import Pages
from starforge_console.web.problems import problem_responses

router = APIRouter(tags=["console"])

Everybody = Annotated[bool, Query(description="everybody's, for administrators")]


@router.get("/tokens", responses=problem_responses(401, 403))
async def list_live_tokens(pages: Pages, account: Reader, *, everybody: Everybody = False) -> TokenList:
    """The caller's personal tokens and page sessions that live."""
    found = await pages.sessions.list_for(account, everybody=everybody)
    return TokenList(items=tuple(_show_token(one, account) for one in found))


@router.delete("/tokens/{token_id}", status_code=204, responses=problem_responses(401, 403, 404))
async def revoke_token(
    pages: Pages, account: Reader, token_id: Annotated[int, Path(ge=1, le=LARGEST_NUMBER)]
) -> Response:
    """End a token with all that came of it, or a session, at once; administrators end anybody's."""
    await pages.sessions.revoke(account, token_id)
    return Response(status_code=204)


@router.post("/tokens/revoke-others", responses=problem_responses(401, 403))
async def revoke_other_tokens(pages: Pages, account: Reader) -> OthersEnded:
    """End every token and session of the caller's but the token that this request carries."""
    return OthersEnded(ended=await pages.sessions.end_others(account))


def _show_token(one: TokenRecord, account: Account) -> TokenView:
    return TokenView(
        id=one.id,
        kind="session" if one.kind == SESSION else "personal",
        user=one.user,
        label=one.label,
        scopes=one.scopes,
        created_at=one.created_at,
        expires_at=one.expires_at,
        used_at=one.used_at,
        peer=one.peer,
        agent=one.agent,
        current=one.id == account.token_id,
    )
