"""What an adapter decides on, beside the recipe."""

from dataclasses import dataclass

from starforge.contract.canonical import Json
from starforge.contract.jobspec import JobSpec
from starforge.recipes.model import Recipe, Runtime
from starforge.recipes.names import flatten


@dataclass(frozen=True, slots=True, kw_only=True)
class InputPaths:
    """Where the container finds the job's inputs: absolute, or with the PLACE_ words of the capsule; None: not named.

    `start` is a checkpoint of another job to start from; where there is one, it stands in for the model.
    """

    model: str | None = None
    train: str | None = None
    validation: str | None = None
    start: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanInputs:
    """One job as an adapter sees it. `recipe` is already at the version of `runtime`.

    `resume`: whether this attempt may continue from an earlier attempt's checkpoint.
    """

    recipe: Recipe
    runtime: Runtime
    spec: JobSpec
    paths: InputPaths
    resume: bool

    @property
    def settings(self) -> dict[str, Json]:
        """The hyperparameters that were set, by full name; what was not set is left to the framework or the adapter."""
        return flatten(self.recipe, self.spec.spec.hyperparameters)

    def find(self, name: str) -> Json:
        """The hyperparameter `name`: as it was set, else the recipe's default."""
        settings = self.settings
        if settings.get(name) is not None:
            return settings[name]
        return next((one.default for one in self.recipe.parameters if one.name == name), None)

    @property
    def folder(self) -> str:
        """The experiment's folder, relative to the work directory."""
        return self.spec.spec.entry.value

    @property
    def nodes(self) -> int:
        """How many nodes the job spans."""
        return sum(pool.nodes for pool in self.spec.spec.resources.pools)

    @property
    def gpus_per_node(self) -> int:
        """GPUs of each node; the most where pools differ."""
        return max(pool.gpus_per_node for pool in self.spec.spec.resources.pools)
