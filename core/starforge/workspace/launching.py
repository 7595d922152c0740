"""What a launch of an experiment would refuse, told where the setting stands that it is about."""

import re
from typing import Final

from starforge.contract import jobspec
from starforge.contract.canonical import Json
from starforge.errors import LaunchRefused
from starforge.recipes.faults import Fault, Place
from starforge.recipes.launchable import find_refusal
from starforge.recipes.model import Recipe
from starforge.recipes.yaml12 import Document

_KEY: Final = re.compile(r"[A-Za-z_][\w.]*")
_UNKNOWN_GPUS: Final = (8, 16)
"""As long as nobody chose GPUs, what is refused with either number alike is not about them."""


def find_launch_fault(
    recipe: Recipe, members: dict[str, Json], resources: jobspec.Resources | None, origin: Document
) -> Fault | None:
    """What the launch would refuse of an experiment without faults; None for nothing. Pure.

    Args:
        recipe: The recipe at the framework's version.
        members: Those of a JobSpec's `spec`, with any resources.
        resources: What was asked for; None: nothing yet, so nothing is told that depends on how many GPUs there are.
        origin: Where each setting stands.

    """
    pools: list[Json] = [{"pools": [{"gpus_per_node": gpus}]} for gpus in _UNKNOWN_GPUS]
    asked = pools if resources is None else [resources.model_dump(mode="json")]
    refused = [find_refusal(recipe, _build_spec({**members, "resources": one})) for one in asked]
    first = refused[0]
    if first is None or any(str(one) != str(first) for one in refused):
        return None
    message = f"{first.what}: {first.why}" if first.why else first.what
    return Fault("launch_refused", message, _find_place(origin, first), first.next_step)


def _build_spec(members: dict[str, Json]) -> jobspec.JobSpec:
    metadata = {"name": "probe", "project": "probe"}
    return jobspec.JobSpec.model_validate({"metadata": metadata, "spec": members})


def _find_place(origin: Document, refused: LaunchRefused) -> Place:
    """Where the first setting stands that the message names."""
    for word in _KEY.findall(refused.what):
        parts = tuple(word.rstrip(".").split("."))
        for path in (parts, ("hyperparameters", ".".join(parts)), ("hyperparameters", *parts)):
            if path in origin.places:
                return origin.place_of(path)
    return origin.place_of([])
