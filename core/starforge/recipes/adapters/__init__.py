"""Adapters: what a recipe and a JobSpec become when an attempt starts. Each is a pure `build_plan`."""

from typing import Final

from starforge.contract.capsule import Plan
from starforge.contract.jobspec import JobSpec
from starforge.errors import Bug
from starforge.recipes.adapters import custom
from starforge.recipes.model import Recipe

_ADAPTERS: Final = {"custom": custom.build_plan}


def build_plan(recipe: Recipe, spec: JobSpec, *, resume: bool) -> Plan:
    """What the runner starts for `spec`. Pure.

    Args:
        recipe: The method as published here.
        spec: The submission.
        resume: Whether this attempt may continue from an earlier attempt's checkpoint.

    Raises:
        Bug: the recipe names an adapter that this version does not have.

    """
    adapter = _ADAPTERS.get(recipe.adapter)
    if adapter is None:
        raise Bug(f"recipe {recipe.name} names the adapter {recipe.adapter!r}", why=f"known: {', '.join(_ADAPTERS)}")
    return adapter(recipe, spec, resume=resume)
