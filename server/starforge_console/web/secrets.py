"""Routes of the caller's own secrets: set, list by name, remove. No route gives a value back."""

from fastapi import APIRouter
from starlette.responses import Response

from starforge.contract.kept_secrets import SecretList, SecretView, SetSecret
from starforge.contract.launch import Secret
from starforge.contract.secrets import describe_unmasked
from starforge_console.web.deps import Services, Submitter
from starforge_console.web.problems import problem_responses

router = APIRouter(tags=["secrets"])


@router.get("/secrets", responses=problem_responses(401, 403))
async def list_own_secrets(services: Services, account: Submitter) -> SecretList:
    """The caller's secrets by name, and when each was set."""
    found = await services.secrets.list_for(account)
    return SecretList(items=tuple(SecretView(name=one.name, set_at=one.set_at) for one in found))


@router.put("/secrets/{name}", responses=problem_responses(401, 403, 409, 413))
async def set_secret(services: Services, account: Submitter, name: str, request: SetSecret) -> SecretView:
    """Set one of the caller's secrets; what had the name before is replaced."""
    value = request.value.get_secret_value()
    kept = await services.secrets.put(account, name, Secret(value))
    return SecretView(name=kept.name, set_at=kept.set_at, note=describe_unmasked(name, value))


@router.delete("/secrets/{name}", status_code=204, responses=problem_responses(401, 403, 404))
async def remove_secret(services: Services, account: Submitter, name: str) -> Response:
    """Remove one of the caller's secrets; jobs that run keep what they were given."""
    await services.secrets.remove(account, name)
    return Response(status_code=204)
