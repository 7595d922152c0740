"""Adapters: what a recipe and a JobSpec become when an attempt starts. Each is a pure `build_plan`."""

from typing import Final

from starforge.contract.capsule import Plan
from starforge.errors import Bug
from starforge.recipes.adapters import custom, evalkit, nemo_rl, openrlhf, trl, verl
from starforge.recipes.adapters.inputs import PlanInputs

_ADAPTERS: Final = {
    "custom": custom.build_plan,
    "evalkit": evalkit.build_plan,
    "nemo-rl": nemo_rl.build_plan,
    "openrlhf": openrlhf.build_plan,
    "trl": trl.build_plan,
    "verl": verl.build_plan,
}


def build_plan(inputs: PlanInputs) -> Plan:
    """What the runner starts. Pure.

    Raises:
        Bug: the recipe names an adapter that this version does not have.

    """
    adapter = _ADAPTERS.get(inputs.recipe.adapter)
    if adapter is None:
        what = f"recipe {inputs.recipe.name} names the adapter {inputs.recipe.adapter!r}"
        raise Bug(what, why=f"known: {', '.join(_ADAPTERS)}")
    return adapter(inputs)
