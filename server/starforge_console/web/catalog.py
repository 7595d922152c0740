"""Routes that say who answers, and what is on offer."""

import asyncio
from typing import Annotated, Final

from fastapi import APIRouter, Path, Query

import starforge
from starforge.contract.api import Meta, MethodList, ProfileList
from starforge.contract.catalog import MethodDetail
from starforge.contract.jobspec import API_VERSION
from starforge.errors import NotFound
from starforge.recipes.model import Recipe
from starforge.said.sentence import say
from starforge_console.domain.nearest import say_nearest
from starforge_console.fleets.profiles import build_profiles_of
from starforge_console.web.catalog_views import build_method_detail
from starforge_console.web.deps import OLDEST_CLIENT, ApiServices, Reader, Services
from starforge_console.web.problems import problem_responses
from starforge_console.web.views import build_method, build_profiles

FEATURES: Final = (
    "curves",
    "device_login",
    "events",
    "inputs",
    "lineage",
    "logs",
    "outputs",
    "quotas",
    "secrets",
    "stop",
)

Part = Annotated[str, Path(max_length=40)]

router = APIRouter(tags=["console"])


@router.get("/meta", responses=problem_responses(), openapi_extra={"security": []})
async def describe_server() -> Meta:
    """Who answers, and what it understands; needs no sign-in."""
    return Meta(server=starforge.__version__, jobspec=(API_VERSION,), min_client=OLDEST_CLIENT, features=FEATURES)


@router.get("/methods", responses=problem_responses(401, 403))
async def list_methods(services: Services, _account: Reader) -> MethodList:
    """The methods that are published here."""
    return MethodList(items=tuple(map(build_method, await load_published(services))))


@router.get("/methods/{framework}/{method}", responses=problem_responses(401, 403, 404))
async def show_method(
    services: Services,
    _account: Reader,
    framework: Part,
    method: Part,
    version: Annotated[str | None, Query(max_length=100)] = None,
) -> MethodDetail:
    """A published method with the hyperparameters of one version of its framework, the newest where none is named."""
    recipe, chosen = await find_published(services, f"{framework}/{method}", version)
    return build_method_detail(recipe, chosen)


async def load_published(services: ApiServices) -> list[Recipe]:
    """The published recipes by name; they may have to be read first."""
    return await asyncio.to_thread(lambda: [services.catalog[name] for name in sorted(services.catalog)])


async def find_published(services: ApiServices, name: str, version: str | None) -> tuple[Recipe, str | None]:
    """The published recipe of that name and the version of its framework that is meant. Raises NotFound."""
    if name not in services.catalog:
        raise NotFound(say("form.unpublished", name=repr(name)), next_step=say_nearest(name, services.catalog))
    recipe = await asyncio.to_thread(services.catalog.__getitem__, name)
    published = recipe.framework_versions
    if version is None:
        return recipe, published[0] if published else None
    if version not in published:
        raise NotFound(
            say("form.unpublished_version", name=name, framework=recipe.framework, version=repr(version)),
            next_step=say_nearest(version, published),
        )
    return recipe, version


@router.get("/profiles", responses=problem_responses(401, 403))
async def list_profiles(services: Services, _account: Reader) -> ProfileList:
    """The shapes that `--profile` may name: the built-in ones and those of the machines that have answered."""
    return ProfileList(items=build_profiles(build_profiles_of(services.views())))
