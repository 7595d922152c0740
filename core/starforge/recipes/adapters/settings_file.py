"""What was set, as one file that every YAML reader understands alike: JSON, written so that PyYAML reads it as JSON."""

import json
import re
from collections.abc import Mapping
from typing import Final

from starforge.contract.canonical import Json
from starforge.errors import LaunchRefused
from starforge.recipes.adapters.inputs import PlanInputs
from starforge.recipes.hyperparameters import EXTRA, is_platform_owned
from starforge.recipes.model import Recipe

_INDENT: Final = "  "
_NOT_IN_YAML: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that JSON takes as they are, and YAML takes for the end of a line or not at all."""


def split_extra(inputs: PlanInputs) -> tuple[dict[str, Json], dict[str, Json]]:
    """What was set and what the recipe fixes, under the framework's own names, and what `extra` holds. Pure.

    What the recipe's option `launcher` names is left out: it is not the framework's.

    Raises:
        LaunchRefused: a name that the recipe does not have, or in `extra` one that it has or that the platform sets.

    """
    recipe = inputs.recipe
    paths = {parameter.name: parameter.path for parameter in recipe.parameters}
    left_out = list_option(recipe, "launcher")
    settings: dict[str, Json] = dict(recipe.fixed)
    extra: dict[str, Json] = {}
    for name, value in inputs.settings.items():
        if name not in paths:
            raise LaunchRefused(
                f"{recipe.name} has no hyperparameter {name!r}", next_step="remove it, or put it below extra"
            )
        if name == EXTRA and isinstance(value, dict):
            extra = value
        elif name not in left_out:
            settings[paths[name]] = value
    for name in extra:
        refuse_known(recipe, name)
    return settings, extra


def refuse_known(recipe: Recipe, name: str) -> None:
    """Return when `name` may stand in `extra`.

    Raises:
        LaunchRefused: the platform sets it, or the recipe has it.

    """
    if is_platform_owned(recipe, name):
        raise LaunchRefused(f"extra holds {name!r}, which is set by the platform", next_step="remove it")
    if any(name in {parameter.name, parameter.path} for parameter in recipe.parameters):
        raise LaunchRefused(
            f"extra holds {name!r}, which is a hyperparameter of its own", next_step="set it beside extra"
        )


def list_option(recipe: Recipe, name: str) -> list[Json]:
    """The names that the recipe's option `name` lists; none where it has no such option."""
    names = recipe.options.get(name)
    return names if isinstance(names, list) else []


def dump_settings(settings: Mapping[str, Json]) -> str:
    """One member a line, sorted by name, so that the same settings are the same text. Pure."""
    return _dump(dict(settings), "") + "\n"


def _dump(value: Json, indent: str) -> str:
    inner = indent + _INDENT
    if isinstance(value, dict) and value:
        rows = [f"{inner}{_dump_scalar(key)}: {_dump(value[key], inner)}" for key in sorted(value)]
        return "{\n" + ",\n".join(rows) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        return "[\n" + ",\n".join(f"{inner}{_dump(item, inner)}" for item in value) + f"\n{indent}]"
    if isinstance(value, list):
        return "[" + ", ".join(_dump_scalar(item) for item in value) + "]"
    return _dump_scalar(value)


def _dump_scalar(value: Json) -> str:
    if isinstance(value, float):
        return dump_float(value)
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return _NOT_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def dump_float(value: float) -> str:
    """The number with a point: PyYAML takes `1e-05` for a text and `1.0e-05` for a number."""
    mantissa, exponent, power = json.dumps(value, allow_nan=False).partition("e")
    return f"{mantissa}.0{exponent}{power}" if exponent and "." not in mantissa else f"{mantissa}{exponent}{power}"
