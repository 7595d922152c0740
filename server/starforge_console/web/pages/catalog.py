"""The pages of the catalog: the published methods, and one of them with its hyperparameters."""

from itertools import groupby
from typing import Annotated, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Query
from starlette.responses import Response

from starforge.contract.catalog import MethodDetail, ParameterView
from starforge_console.web.catalog import Part, find_published, load_published
from starforge_console.web.catalog_views import build_method_detail
from starforge_console.web.deps import Services
from starforge_console.web.i18n.words import Words
from starforge_console.web.pages.services import Pages
from starforge_console.web.pages.visit import Signed

EXPERIMENT: Final = "my-experiment"
GROUPS: Final = (
    *("model", "data", "method", "reward", "tasks", "optimizer", "schedule", "batch", "precision", "quantization"),
    *("lora", "generation", "vllm", "evaluation", "checkpoint", "logging", "distributed", "randomness", "advanced"),
)
"""Groups of hyperparameters in the order of the page, each with words; a recipe may bring others."""

router = APIRouter(include_in_schema=False)


@router.get("/catalog")
async def show_catalog(pages: Pages, services: Services, visit: Signed) -> Response:
    """The methods that are published here, by framework."""
    recipes = await load_published(services)
    details = [build_method_detail(one, next(iter(one.framework_versions), None)) for one in recipes]
    frameworks = [(name, list(found)) for name, found in groupby(details, lambda one: one.framework)]
    return pages.look.page(visit, "catalog.html", nav="catalog", frameworks=frameworks)


@router.get("/catalog/{framework}/{method}")
async def show_method(  # noqa: PLR0913 - two parts of a name, and who asks
    pages: Pages,
    services: Services,
    visit: Signed,
    *,
    framework: Part,
    method: Part,
    version: Annotated[str | None, Query(max_length=100)] = None,
) -> Response:
    """One method with the hyperparameters of one version of its framework, the newest where none is named."""
    recipe, chosen = await find_published(services, f"{framework}/{method}", version)
    detail = build_method_detail(recipe, chosen)
    return pages.look.page(
        visit,
        "method.html",
        nav="catalog",
        detail=detail,
        runtime=next((one for one in detail.runtimes if one.version == chosen), None),
        groups=[(_name_group(visit.words, name), found) for name, found in _group(detail.parameters)],
        command=_build_command(detail),
        address=lambda one: f"/catalog/{detail.method.name}?{urlencode({'version': one})}",
        describe_range=describe_range,
    )


def describe_range(parameter: ParameterView) -> str:
    """What a value may be, beside its type: the choices, or the bounds; empty where anything of the type may be."""
    if parameter.choices:
        return ", ".join(parameter.choices)
    least, most = parameter.minimum, parameter.maximum
    if least is not None and most is not None:
        return f"{least:g} – {most:g}"  # noqa: RUF001 - a range
    if least is not None:
        return f"≥ {least:g}"
    return f"≤ {most:g}" if most is not None else ""


def _group(parameters: tuple[ParameterView, ...]) -> list[tuple[str, list[ParameterView]]]:
    """The hyperparameters by group: known groups in their order, others after them as they come."""
    found: dict[str, list[ParameterView]] = {}
    for one in parameters:
        found.setdefault(one.group, []).append(one)
    order = {name: place for place, name in enumerate(GROUPS)}
    return sorted(found.items(), key=lambda group: order.get(group[0], len(order)))


def _name_group(words: Words, group: str) -> str:
    code = f"group.{group}"
    return words.text(code) if code in words.codes else group


def _build_command(detail: MethodDetail) -> str:
    versions = detail.method.framework_versions
    chosen = f" --framework-version {detail.version}" if versions and detail.version != versions[0] else ""
    return f"sf new {EXPERIMENT} --method {detail.method.name}{chosen}"
