"""A published method as a message of the API, with the hyperparameters of one version."""

from starforge.contract.catalog import MethodDetail, MetricView, ParameterView, RuntimeView
from starforge.recipes.model import Parameter, Recipe
from starforge_console.web.views import build_method


def build_method_detail(recipe: Recipe, version: str | None) -> MethodDetail:
    """A published method as the framework's `version` has it."""
    primary = recipe.primary_metric
    return MethodDetail(
        method=build_method(recipe),
        framework=recipe.framework,
        version=version,
        runtimes=tuple(
            RuntimeView(version=one.version, image=one.image, python=one.python, modules=dict(one.modules))
            for one in recipe.runtimes
        ),
        roles=recipe.roles,
        needs=recipe.needs,
        parameters=tuple(map(_build_parameter, recipe.at(version).parameters)),
        open_parameters=recipe.open_parameters,
        primary_metric=None if primary is None else MetricView(key=primary.key, better=primary.better),
    )


def _build_parameter(parameter: Parameter) -> ParameterView:
    return ParameterView(
        name=parameter.name,
        group=parameter.group,
        type=parameter.type,
        default=parameter.default,
        minimum=parameter.minimum,
        maximum=parameter.maximum,
        choices=parameter.choices,
        items=parameter.items,
        help=dict(parameter.help),
    )
