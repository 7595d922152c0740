"""What a recipe is: a published training method, described by data alone."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal

from starforge.contract.canonical import Json, digest_json
from starforge.contract.ids import Digest
from starforge.runner.versions import is_in_range

Texts = Mapping[str, str]
"""A sentence for people by language: `en` and `zh-Hans`."""
ParameterType = Literal["text", "int", "number", "bool", "list", "map", "any"]
EntryKind = Literal["file", "module", "experiment"]
MetricKind = Literal["report", "trainer", "jsonl", "tensorboard", "lm_eval"]
Need = Literal["model", "train"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """What is different about a parameter or a rule in some versions of the framework.

    `changes` holds members of the parameter by name.
    """

    versions: str
    changes: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One hyperparameter, under the framework's own name.

    `path` is where it stands in the framework's own configuration. `versions` is the range of the framework's versions
    that have it, `variants` what is different in some of them. `items` is the type of a list's members. A default of
    None is left to the framework, and such a parameter may be null; so may one that is `nullable`, where null means
    something of its own. `aliases` are other names that it may be given under.
    """

    name: str
    group: str
    type: ParameterType
    path: str
    help: Texts
    default: Json = None
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    items: ParameterType | None = None
    nullable: bool = False
    versions: str = ""
    variants: tuple[Variant, ...] = ()
    aliases: tuple[str, ...] = ()

    def at(self, version: str) -> "Parameter":
        """The parameter as the framework's `version` has it."""
        found = self
        for variant in self.variants:
            if is_in_range(version, variant.versions):
                found = replace(found, **variant.changes)
        return replace(found, variants=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What several hyperparameters must keep together. `require` and `when` are expressions of `recipes.rules`."""

    require: str
    message: Texts
    when: str = ""
    versions: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """One version of the framework that the recipe runs on: an image that holds it, and what any image must offer.

    `image` is None where nobody publishes one; `modules` are distributions with PEP 440 ranges. `fixed` adds to what
    the recipe fixes.
    """

    id: str
    version: str | None
    image: str | None
    python: str = ""
    modules: Mapping[str, str]
    fixed: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What the adapter starts.

    `experiment`: `value` is a file of the experiment's folder, which must exist. `module`: a Python module of the
    image. `file`: a file of the image.
    """

    kind: EntryKind
    value: str
    executable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricOrigin:
    """Where the curves come from; `path` as in the capsule's MetricSource."""

    kind: MetricKind
    path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimaryMetric:
    """The curve by which runs of this method are compared."""

    key: str
    better: Literal["lower", "higher"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """How checkpoints come to be committed; the meaning of each kind is the capsule's."""

    kind: Literal["manifest", "folders", "none"]
    pattern: str = ""
    complete: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """When the training is complete; the meaning of each kind is the capsule's."""

    kind: Literal["finish", "steps", "file", "unknown"]
    total_steps_parameter: str | None = None
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A published method.

    `open_parameters` takes hyperparameters that the recipe does not know. `platform_parameters` are the framework's
    keys that no experiment sets; a name that ends in `.` covers all below it. `fixed` is what the method itself sets,
    in the framework's own names. `options` are what the adapter alone understands; with `interpolations` a text that
    holds `${...}` may stand for any value, because the framework resolves it itself. `needs` are the inputs without
    which no job starts: a model (or `init_from`) and training data. `removed` are names that the framework once had,
    each with what to do instead. `instead` says of names that the platform sets which key of the config they come from.
    `actions` is what other jobs may do with its checkpoints: `init_from`, start from one; `evaluate`, measure one.
    """

    name: str
    version: str
    summary: Texts
    framework: str
    adapter: str
    entry: Entry
    roles: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    open_parameters: bool
    platform_parameters: tuple[str, ...]
    fixed: Mapping[str, Json]
    options: Mapping[str, Json]
    rules: tuple[Rule, ...]
    runtimes: tuple[Runtime, ...]
    metrics: tuple[MetricOrigin, ...]
    primary_metric: PrimaryMetric | None
    checkpoints: Checkpoints
    completion: Completion
    actions: tuple[str, ...]
    requires_core: str
    manifest_digest: Digest
    template_digest: Digest
    needs: tuple[Need, ...] = ()
    removed: Mapping[str, Texts] = field(default_factory=dict)
    instead: Mapping[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> Digest:
        """The digest that a JobSpec names: manifest and template together."""
        return digest_recipe(self.manifest_digest, self.template_digest)

    @property
    def framework_versions(self) -> tuple[str, ...]:
        """The framework's versions that this recipe runs on, newest first; empty when it has no framework."""
        return tuple(runtime.version for runtime in self.runtimes if runtime.version is not None)

    @property
    def other_names(self) -> Mapping[str, str]:
        """Of every alias the name of its parameter; a name that is a parameter's own is no alias."""
        own = {one.name for one in self.parameters}
        return {other: one.name for one in self.parameters for other in one.aliases if other not in own}

    def find_runtime(self, runtime_id: str) -> Runtime | None:
        """The runtime of that id, or None when the recipe does not offer it."""
        return next((runtime for runtime in self.runtimes if runtime.id == runtime_id), None)

    def find_version(self, version: str | None) -> Runtime | None:
        """The runtime with that version of the framework, or None when the recipe does not offer it."""
        return next((runtime for runtime in self.runtimes if runtime.version == version), None)

    def at(self, version: str | None) -> "Recipe":
        """The recipe with the parameters and rules that the framework's `version` has; whole where that is None."""
        if version is None:
            return self
        parameters = tuple(one.at(version) for one in self.parameters if is_in_range(version, one.versions))
        rules = tuple(rule for rule in self.rules if is_in_range(version, rule.versions))
        present = {name for one in parameters for name in (one.name, *one.aliases)}
        elsewhere = {
            one.name: {
                "en": f"only {self.framework} {one.versions} has it, this is {version}",
                "zh-Hans": f"{self.framework} {version} 没有，{one.versions} 才有",  # noqa: RUF001 - Chinese punctuation
            }
            for one in self.parameters
            if one.name not in present
        }
        return replace(self, parameters=parameters, rules=rules, removed={**elsewhere, **self.removed})


@lru_cache(maxsize=1024)  # asked about each submission, of the recipes that are published
def digest_recipe(manifest: Digest, template: Digest) -> Digest:
    """The digest of a recipe whose manifest and template have these digests."""
    return digest_json({"manifest": manifest, "template": template})
