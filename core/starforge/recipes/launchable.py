"""Whether a job of a method can start at all, asked before anything is placed: its plan is built, and let go."""

from starforge.contract.capsule import PLACE_WORK
from starforge.contract.jobspec import JobSpec
from starforge.errors import LaunchRefused
from starforge.recipes.adapters import build_plan
from starforge.recipes.adapters.inputs import InputPaths, PlanInputs
from starforge.recipes.model import Recipe

_HUB_SCHEME = "hf://"


def find_refusal(recipe: Recipe, spec: JobSpec) -> LaunchRefused | None:
    """Why the launch of `spec` would be refused, as far as `spec` alone says it. Pure.

    Args:
        recipe: The recipe at the framework's version.
        spec: A job whose hyperparameters have no fault.

    """
    asked = spec.spec
    runtime = recipe.find_version(asked.framework.version) or recipe.runtimes[0]
    paths = InputPaths(
        model=_guess_path(asked.model),
        train=_guess_path(asked.data.train),
        validation=_guess_path(asked.data.validation),
        start=_guess_path(asked.init_from),
    )
    try:
        build_plan(PlanInputs(recipe=recipe, runtime=runtime, spec=spec, paths=paths, resume=False))
    except LaunchRefused as refused:
        return refused
    return None


def _guess_path(text: str | None) -> str | None:
    """Where a container would find it: what a hub holds arrives as a folder, whatever its name ends in."""
    if not text or text.startswith("/"):
        return text or None
    return f"/{text.removeprefix(_HUB_SCHEME)}@" if text.startswith(_HUB_SCHEME) else f"{PLACE_WORK}/{text}"
