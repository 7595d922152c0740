"""Routes of users, teams and their limits. For administrators."""

from typing import Final

from fastapi import APIRouter
from starlette.responses import Response

from starforge.contract.people import AddUser, SetActive, SetQuota, SetRole, SetTeam, UserList, UserView
from starforge.contract.quotas import Held, QuotaList, QuotaView
from starforge_console.accounts.quota_views import show_quota
from starforge_console.domain.quota import Holder, HolderKind, Limit
from starforge_console.domain.roles import Role
from starforge_console.ledger.people import Person
from starforge_console.web.deps import Administrator, Services
from starforge_console.web.problems import problem_responses

_CHANGED: Final = (401, 403, 404, 413)

router = APIRouter(tags=["administration"])


@router.get("/admin/users", responses=problem_responses(401, 403))
async def list_all_users(services: Services, _account: Administrator) -> UserList:
    """Everybody who may sign in, with their team and what their jobs hold now."""
    return UserList(items=tuple(map(_show_person, await services.people.list_all())))


@router.post("/admin/users", status_code=201, responses=problem_responses(401, 403, 409, 413))
async def add_user(services: Services, _account: Administrator, request: AddUser) -> UserView:
    """Add a user. A link to sign in with is made on the page, never here: whoever holds a token could pass it on."""
    return _show_person(await services.people.add(request.name, Role(request.role)))


@router.put("/admin/users/{user}/role", responses=problem_responses(*_CHANGED, 409))
async def set_users_role(services: Services, _account: Administrator, user: str, request: SetRole) -> UserView:
    """Give a user another role; it counts at once for every token and session of theirs."""
    return _show_person(await services.people.set_role(user, Role(request.role)))


@router.put("/admin/users/{user}/active", responses=problem_responses(*_CHANGED, 409))
async def set_user_active(services: Services, _account: Administrator, user: str, request: SetActive) -> UserView:
    """Let a user sign in, or not any more: then their tokens and sessions end at once, and their jobs go on."""
    return _show_person(await services.people.set_active(user, active=request.active))


@router.put("/admin/users/{user}/team", responses=problem_responses(*_CHANGED))
async def set_users_team(services: Services, _account: Administrator, user: str, request: SetTeam) -> UserView:
    """Let a user belong to a team, or to none; a team is there while somebody belongs to it or it has a limit."""
    return _show_person(await services.people.set_team(user, request.team))


@router.get("/admin/quotas", responses=problem_responses(401, 403))
async def list_all_quotas(services: Services, _account: Administrator) -> QuotaList:
    """Every limit of a user or a team, with the runs that count against it now."""
    return QuotaList(items=tuple(map(show_quota, await services.people.list_limits())))


@router.put("/admin/quotas/{kind}/{holder}", responses=problem_responses(*_CHANGED))
async def set_quota(
    services: Services, _account: Administrator, kind: HolderKind, holder: str, request: SetQuota
) -> QuotaView:
    """Limit what a user or a team may hold and use; what runs goes on, and queued jobs wait."""
    numbers = request.model_dump(exclude={"series", "profiles"})
    series = None if request.series is None else frozenset(request.series)
    profiles = None if request.profiles is None else frozenset(request.profiles)
    limit = Limit(**numbers, series=series, profiles=profiles)
    return show_quota(await services.people.set_limit(Holder(kind, holder), limit))


@router.delete("/admin/quotas/{kind}/{holder}", status_code=204, responses=problem_responses(401, 403, 404))
async def remove_quota(services: Services, _account: Administrator, kind: HolderKind, holder: str) -> Response:
    """Let a user or a team have no limit."""
    await services.people.remove_limit(Holder(kind, holder))
    return Response(status_code=204)


def _show_person(person: Person) -> UserView:
    return UserView(
        name=person.user.name,
        role=person.user.role,
        active=person.user.active,
        team=person.team,
        held=Held(gpus=person.gpus, jobs=person.jobs),
    )
