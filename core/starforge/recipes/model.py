"""What a recipe is: a published training method, described by data alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from starforge.contract.canonical import Json, digest_json
from starforge.contract.ids import Digest

ParameterType = Literal["text", "int", "number", "bool", "list", "map", "any"]
EntryKind = Literal["file", "module", "experiment"]
MetricKind = Literal["report", "trainer", "jsonl", "tensorboard"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One hyperparameter. `path` is where it stands in the framework's own configuration."""

    name: str
    group: str
    type: ParameterType
    path: str
    help: str
    default: Json = None
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """One version of the framework that the recipe runs on: the image that holds it and what that must offer."""

    id: str
    version: str | None
    image: str
    python: str = ""
    modules: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What the adapter starts: `file` is the experiment's file that must exist."""

    kind: EntryKind
    file: str
    executable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricOrigin:
    """Where the curves come from; `path` is relative to the experiment."""

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

    kind: Literal["finish", "steps", "unknown"]
    total_steps_parameter: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A published method. `open_parameters` takes hyperparameters that the recipe does not know."""

    name: str
    version: str
    summary: Mapping[str, str]
    framework: str
    adapter: str
    entry: Entry
    roles: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    open_parameters: bool
    platform_parameters: tuple[str, ...]
    runtimes: tuple[Runtime, ...]
    metrics: tuple[MetricOrigin, ...]
    primary_metric: PrimaryMetric | None
    checkpoints: Checkpoints
    completion: Completion
    actions: tuple[str, ...]
    requires_core: str
    manifest_digest: Digest
    template_digest: Digest

    @property
    def digest(self) -> Digest:
        """The digest that a JobSpec names: manifest and template together."""
        return digest_recipe(self.manifest_digest, self.template_digest)

    @property
    def framework_versions(self) -> tuple[str, ...]:
        """The framework's versions that this recipe runs on, newest first; empty when it has no framework."""
        return tuple(runtime.version for runtime in self.runtimes if runtime.version is not None)

    def find_runtime(self, runtime_id: str) -> Runtime | None:
        """The runtime of that id, or None when the recipe does not offer it."""
        return next((runtime for runtime in self.runtimes if runtime.id == runtime_id), None)


def digest_recipe(manifest: Digest, template: Digest) -> Digest:
    """The digest of a recipe whose manifest and template have these digests."""
    return digest_json({"manifest": manifest, "template": template})
