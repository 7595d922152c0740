"""Gate `catalog`: the method is published here, in the version and with the digest that the experiment's lock names."""

from starforge.contract.api import RefusalView
from starforge.contract.jobspec import JobSpec
from starforge.recipes.model import Recipe
from starforge.wording import describe_nearest, join_sentences
from starforge_console.admission.gate import Snapshot, Submission, Verdict

_UPGRADE = "make an experiment of the published version with 'sf new', and move your settings and code over"


class CatalogGate:
    """Asks for a published method, its framework and its entry."""

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
        refusals = [
            *self._check_version(submission.spec, recipe),
            *self._check_framework(submission.spec, recipe),
            *self._check_entry(submission.spec, recipe),
            *self._check_inputs(submission.spec),
        ]
        return Verdict(against=f"{recipe.name} {recipe.version} {recipe.digest}", refusals=tuple(refusals))

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
            what = f"{recipe.name} does not run on {asked.kind} {asked.version or '(no version)'}"
            return [self._refuse("framework_version", what, f"published are {', '.join(published)}", _UPGRADE)]
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

    def _check_inputs(self, spec: JobSpec) -> list[RefusalView]:
        """What this console would not bring to the job is refused: in silence, the job would train without it."""
        asked = spec.spec
        references = {"model": asked.model, "data.train": asked.data.train, "data.validation": asked.data.validation}
        outside = {name: text for name, text in references.items() if text and text.startswith(("hf://", "/"))}
        if asked.init_from is not None:
            outside["init_from"] = asked.init_from
        return [
            self._refuse(
                "input_not_served",
                f"{name} {text!r} is not brought to jobs by this release",
                "only files of the workspace and the job's own checkpoints are",
                "put the files into the project, or into the image",
            )
            for name, text in outside.items()
        ]

    def _refuse(self, code: str, what: str, why: str = "", next_step: str = "") -> RefusalView:
        return RefusalView(code=code, gate=self.name, what=what, why=why, next_step=next_step)
