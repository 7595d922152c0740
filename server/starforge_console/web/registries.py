"""Routes of logins at registries of images: set, list, remove. For administrators; no route gives a password back."""

from fastapi import APIRouter
from starlette.responses import Response

from starforge.contract.launch import RegistryLogin, Secret
from starforge.contract.registries import RegistryLoginList, RegistryLoginView, SetRegistryLogin
from starforge_console.ledger.registry_credentials import RegistryCredential
from starforge_console.web.deps import Administrator, Services
from starforge_console.web.problems import problem_responses

router = APIRouter(tags=["administration"])


@router.get("/admin/registries", responses=problem_responses(401, 403))
async def list_registry_logins(services: Services, _account: Administrator) -> RegistryLoginList:
    """How the console signs in to registries, without the passwords."""
    return RegistryLoginList(items=tuple(map(_build_view, services.registry_logins.list_kept())))


@router.put("/admin/registries/{registry}", responses=problem_responses(401, 403, 413))
async def set_registry_login(
    services: Services, account: Administrator, registry: str, request: SetRegistryLogin
) -> RegistryLoginView:
    """Let the console sign in to the registry: when it asks for images, and when machines fetch them."""
    login = RegistryLogin(username=request.username, password=Secret(request.password.get_secret_value()))
    return _build_view(await services.registry_logins.put(registry, login, account.user))


@router.delete("/admin/registries/{registry}", status_code=204, responses=problem_responses(401, 403, 404))
async def remove_registry_login(services: Services, account: Administrator, registry: str) -> Response:
    """Let the console sign in to the registry no more."""
    await services.registry_logins.remove(registry, account.user)
    return Response(status_code=204)


def _build_view(kept: RegistryCredential) -> RegistryLoginView:
    return RegistryLoginView(registry=kept.registry, username=kept.username, set_at=kept.set_at, set_by=kept.set_by)
