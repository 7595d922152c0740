"""Routes that say who answers, and what is on offer."""

from typing import Final

from fastapi import APIRouter

import starforge
from starforge.contract.api import Meta, MethodList, ProfileList
from starforge.contract.jobspec import API_VERSION
from starforge_console.fleets.profiles import build_profiles_of
from starforge_console.web.deps import OLDEST_CLIENT, Reader, Services
from starforge_console.web.problems import problem_responses
from starforge_console.web.views import build_method, build_profiles

FEATURES: Final = ("curves", "events", "logs", "outputs", "stop")

router = APIRouter(tags=["console"])


@router.get("/meta", responses=problem_responses(), openapi_extra={"security": []})
async def describe_server() -> Meta:
    """Who answers, and what it understands; needs no sign-in."""
    return Meta(server=starforge.__version__, jobspec=(API_VERSION,), min_client=OLDEST_CLIENT, features=FEATURES)


@router.get("/methods", responses=problem_responses(401, 403))
async def list_methods(services: Services, _account: Reader) -> MethodList:
    """The methods that are published here."""
    return MethodList(items=tuple(build_method(recipe) for _, recipe in sorted(services.catalog.items())))


@router.get("/profiles", responses=problem_responses(401, 403))
async def list_profiles(services: Services, _account: Reader) -> ProfileList:
    """The shapes that `--profile` may name: the built-in ones and those of the machines that have answered."""
    return ProfileList(items=build_profiles(build_profiles_of(services.views())))
