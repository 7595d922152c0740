"""The names of hyperparameters: maps are taken apart to a recipe's dotted names, and other names become its own."""

from collections.abc import Mapping
from typing import NamedTuple

from starforge.contract.canonical import Json
from starforge.recipes.model import Recipe


class Located(NamedTuple):
    """A value, and the keys under which it stands in the document."""

    value: Json
    path: tuple[str, ...]


def flatten(recipe: Recipe, values: Mapping[str, Json]) -> dict[str, Json]:
    """`values` with the recipe's own names: a map below which dotted names of the recipe lie is taken apart. Pure.

    `{trainer: {save_freq: 5}}` is `{trainer.save_freq: 5}` for a recipe that has that name.
    """
    return {name: found.value for name, found in locate(recipe, values).items()}


def locate(recipe: Recipe, values: Mapping[str, Json], path: tuple[str, ...] = ()) -> dict[str, Located]:
    """The same with the keys under which each stands below `path`. Of a value under two names its own counts."""
    found, own = _take_all_apart(recipe, values, path), recipe.other_names
    return {own.get(name, name): located for name, located in found.items() if own.get(name, "") not in found}


def find_twice(recipe: Recipe, values: Mapping[str, Json], path: tuple[str, ...]) -> list[tuple[str, str, Located]]:
    """Every value that is given under two names: the other name, its own name, and where the other one stands."""
    found = _take_all_apart(recipe, values, path)
    return [(other, own, found[other]) for other, own in recipe.other_names.items() if other in found and own in found]


def list_above(name: str) -> list[str]:
    """The name and every name above it, the outermost first."""
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts) + 1)]


def _take_all_apart(recipe: Recipe, values: Mapping[str, Json], path: tuple[str, ...]) -> dict[str, Located]:
    names = {parameter.name for parameter in recipe.parameters}
    names |= {*recipe.platform_parameters, *recipe.fixed, *recipe.other_names}
    holding = {above for one in names for above in list_above(one)[:-1]}
    return _take_apart(values, (names, holding), path, "")


def _take_apart(
    values: Mapping[str, Json], names: tuple[set[str], set[str]], path: tuple[str, ...], prefix: str
) -> dict[str, Located]:
    """`names` are those that are known, and those below which known ones lie."""
    known, holding = names
    found: dict[str, Located] = {}
    for key, value in values.items():
        name, here = f"{prefix}{key}", (*path, key)
        if isinstance(value, dict) and name in holding and name not in known:
            found.update(_take_apart(value, names, here, f"{name}."))
        else:
            found[name] = Located(value, here)
    return found
