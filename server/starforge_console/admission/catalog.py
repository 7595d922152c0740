"""Gate `catalog`: the method is published here, in the version and with the digest that the experiment's lock names."""

from collections.abc import Mapping
from typing import Final

from starforge.contract.api import RefusalView
from starforge.contract.canonical import Json
from starforge.contract.jobspec import JobSpec
from starforge.recipes.faults import Fault, Place
from starforge.recipes.hyperparameters import build_facts, check_hyperparameters, check_rules
from starforge.recipes.launchable import find_refusal
from starforge.recipes.model import Recipe
from starforge.recipes.names import flatten
from starforge.recipes.yaml12 import Document
from starforge.wording import count_of, describe_nearest, join_sentences
from starforge_console.admission.gate import Snapshot, Submission, Verdict
from starforge_console.domain.inputs import MODEL, START, TRAIN, find_named

UNKNOWN_NAMED: Final = 20
"""So many names that a recipe does not have are looked at one by one; the rest is counted."""

_UPGRADE: Final = "run 'sf recipe upgrade' for the experiment, with a client of this console's release; submit it again"
_WHERE: Final = "the submission"


class CatalogGate:
    """Asks for a published method, its framework, its entry and its hyperparameters."""

    name = "catalog"

    def check(self, submission: Submission, snapshot: Snapshot) -> Verdict:
        """Pure: whether what the lock names is what is published."""
        asked = submission.spec.spec.recipe
        recipe = snapshot.catalog.get(asked.name)
        if recipe is None:
            missing = self._refuse(
                "method_unknown",
                f"the method {asked.name} is not published here",
                next_step=join_sentences(describe_nearest(asked.name, snapshot.catalog), "'sf methods' lists them"),
            )
            return Verdict(refusals=(missing,))
        version = submission.spec.spec.framework.version
        runs_on = f" on {recipe.framework} {version}" if version else ""
        against = f"{recipe.name} {recipe.version}{runs_on} {recipe.digest}"
        return Verdict(against=against, refusals=tuple(self.list_refusals(submission.spec, recipe)))

    def list_refusals(self, spec: JobSpec, recipe: Recipe) -> list[RefusalView]:
        """Pure: all that keeps `spec` from being a job of the published `recipe`."""
        refusals = [
            *self._check_version(spec, recipe),
            *self._check_framework(spec, recipe),
            *self._check_entry(spec, recipe),
            *self._check_needs(spec, recipe),
            *self._check_hyperparameters(spec, recipe),
        ]
        return refusals or self._check_launch(spec, recipe.at(spec.spec.framework.version))

    def _check_version(self, spec: JobSpec, recipe: Recipe) -> list[RefusalView]:
        asked = spec.spec.recipe
        if asked.version != recipe.version:
            what = f"{asked.name} {asked.version} is not published here"
            return [self._refuse("recipe_version", what, f"published is {recipe.version}", _UPGRADE)]
        if asked.digest != recipe.digest:
            what = f"{asked.name} {asked.version} differs from the one published here"
            return [self._refuse("recipe_digest", what, f"{asked.digest} is not {recipe.digest}", _UPGRADE)]
        return []

    def _check_framework(self, spec: JobSpec, recipe: Recipe) -> list[RefusalView]:
        asked = spec.spec.framework
        if asked.kind != recipe.framework:
            what = f"{recipe.name} runs on {recipe.framework}, not on {asked.kind}"
            return [self._refuse("framework_kind", what, next_step=_UPGRADE)]
        published = recipe.framework_versions
        if published and asked.version not in published:
            what = f"{recipe.name} on {asked.kind} {asked.version or '(no version)'} is not published here"
            next_step = f"run 'sf recipe upgrade EXPERIMENT --to-version {published[0]}', and submit it again"
            return [self._refuse("framework_version", what, f"published are {', '.join(published)}", next_step)]
        return []

    def _check_entry(self, spec: JobSpec, recipe: Recipe) -> list[RefusalView]:
        refusals = []
        if not spec.spec.framework.image.strip():
            what = f"no image is named for {recipe.name}"
            refusals.append(self._refuse("image_missing", what, next_step="name one with --image"))
        if spec.spec.entry.kind != recipe.entry.kind:
            what = f"{recipe.name} starts from an entry of kind {recipe.entry.kind!r}, not {spec.spec.entry.kind!r}"
            refusals.append(self._refuse("entry_kind", what, next_step=_UPGRADE))
        return refusals

    def _check_needs(self, spec: JobSpec, recipe: Recipe) -> list[RefusalView]:
        given = find_named(spec)
        had = {"model": MODEL in given or START in given, "train": TRAIN in given}
        return [
            self._refuse("input_missing", f"{recipe.name} needs {what}", next_step=f"name it with {option}")
            for need, what, option in (("model", "a model", "--model"), ("train", "training data", "--train-data"))
            if need in recipe.needs and not had[need]
        ]

    def _check_hyperparameters(self, spec: JobSpec, recipe: Recipe) -> list[RefusalView]:
        """A client checks them too; this one may be old, or not ours."""
        asked = recipe.at(spec.spec.framework.version)
        values, left_out = _bound(asked, spec.spec.hyperparameters)
        faults = check_hyperparameters(asked, values, Document(_WHERE))
        if not faults:
            nodes = sum(pool.nodes for pool in spec.spec.resources.pools)
            faults = check_rules(asked, values, build_facts(asked, values, spec.gpus, nodes), Place(_WHERE))
        refusals = [self._refuse_fault(fault) for fault in faults]
        if left_out:
            what = f"{count_of(left_out, 'more name')} that {recipe.name} does not have"
            refusals.append(self._refuse("key_unknown", what, next_step=f"'sf methods {recipe.name}' lists its names"))
        return refusals

    def _check_launch(self, spec: JobSpec, recipe: Recipe) -> list[RefusalView]:
        """What only the launch would refuse, after the wait for a machine."""
        refused = find_refusal(recipe, spec)
        return [self._refuse("launch_refused", refused.what, refused.why, refused.next_step)] if refused else []

    def _refuse_fault(self, fault: Fault) -> RefusalView:
        return self._refuse(fault.code, fault.message, next_step=fault.hint)

    def _refuse(self, code: str, what: str, why: str = "", next_step: str = "") -> RefusalView:
        return RefusalView(code=code, gate=self.name, what=what, why=why, next_step=next_step)


def takes_gpus(spec: JobSpec, catalog: Mapping[str, Recipe], gpus_per_node: int) -> bool:
    """Whether this gate would pass `spec` with so many GPUs on each machine of all pools that have any. Pure."""
    recipe = catalog.get(spec.spec.recipe.name)
    if recipe is None:
        return False
    resources = spec.spec.resources
    pools = [
        pool.model_copy(update={"gpus_per_node": gpus_per_node} if pool.gpus_per_node else {})
        for pool in resources.pools
    ]
    changed = spec.spec.model_copy(update={"resources": resources.model_copy(update={"pools": tuple(pools)})})
    return not CatalogGate().list_refusals(spec.model_copy(update={"spec": changed}), recipe)


def _bound(recipe: Recipe, values: dict[str, Json]) -> tuple[dict[str, Json], int]:
    """The values by full name, with a bounded number of names that the recipe does not have, and how many are left out.

    For each of those the nearest name is looked for, which takes a while: nobody is to keep the console busy with it.
    """
    flat = flatten(recipe, values)
    if recipe.open_parameters:
        return flat, 0
    known = {parameter.name for parameter in recipe.parameters}
    unknown = [name for name in flat if name not in known]
    left_out = set(unknown[UNKNOWN_NAMED:])
    return {name: value for name, value in flat.items() if name not in left_out}, len(left_out)
