"""`recipe.yaml` as a file: what it may hold, and the recipe that it makes."""

from collections.abc import Mapping
from typing import Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from starforge.contract.ids import Digest
from starforge.contract.jobspec import RecipeName, ShortText, Slug
from starforge.errors import ProjectError
from starforge.recipes.model import (
    Checkpoints,
    Completion,
    Entry,
    EntryKind,
    MetricKind,
    MetricOrigin,
    Need,
    Parameter,
    ParameterType,
    PrimaryMetric,
    Recipe,
    Rule,
    Runtime,
    Variant,
)
from starforge.recipes.rules import check_expression
from starforge.runner.versions import is_in_range

LANGUAGES: Final = ("en", "zh-Hans")


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Texts(_Part):
    en: ShortText
    zh_hans: ShortText = Field(alias="zh-Hans")

    def by_language(self) -> dict[str, str]:
        return {"en": self.en, "zh-Hans": self.zh_hans}


class _VariantPart(_Part):
    """What a parameter may be different in; each member as in the parameter itself."""

    versions: ShortText
    path: ShortText | None = None
    default: JsonValue = None
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] | None = None
    type: ParameterType | None = None


class _ParameterPart(_Part):
    name: ShortText
    group: ShortText
    type: ParameterType
    path: ShortText | None = None
    help: _Texts
    default: JsonValue = None
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    items: ParameterType | None = None
    nullable: bool = False
    versions: str = ""
    variants: tuple[_VariantPart, ...] = ()
    aliases: tuple[ShortText, ...] = ()

    def build(self) -> Parameter:
        members: dict[str, Any] = self.model_dump(exclude={"help", "variants", "path"})
        variants = tuple(
            Variant(versions=one.versions, changes=one.model_dump(exclude_unset=True, exclude={"versions"}))
            for one in self.variants
        )
        return Parameter(**members, path=self.path or self.name, help=self.help.by_language(), variants=variants)


class _RulePart(_Part):
    require: ShortText
    message: _Texts
    when: str = ""
    versions: str = ""

    def build(self) -> Rule:
        return Rule(require=self.require, message=self.message.by_language(), when=self.when, versions=self.versions)


class _EntryPart(_Part):
    kind: EntryKind
    value: ShortText
    executable: bool = False


class _RuntimePart(_Part):
    id: Slug
    version: ShortText | None = None
    image: ShortText | None = None
    python: str = ""
    modules: dict[str, str] = Field(default_factory=dict)
    fixed: dict[str, JsonValue] = Field(default_factory=dict)

    def build(self, more: Mapping[str, Mapping[str, str]]) -> Runtime:
        """The runtime, with the further modules of its version."""
        modules = {**self.modules, **more.get(self.version or "", {})}
        return Runtime(**self.model_dump(exclude={"modules"}), modules=modules)


class _MetricPart(_Part):
    kind: MetricKind
    path: str | None = None


class _PrimaryPart(_Part):
    key: ShortText
    better: Literal["lower", "higher"]


class _CheckpointPart(_Part):
    kind: Literal["manifest", "folders", "none"]
    pattern: str = ""
    complete: tuple[str, ...] = ()


class _CompletionPart(_Part):
    kind: Literal["finish", "steps", "file", "unknown"]
    total_steps_parameter: str | None = None
    path: str = ""


class Shared(_Part):
    """A file beside the methods of one framework: what several of them have in common."""

    parameters: tuple[_ParameterPart, ...] = ()
    platform_parameters: tuple[str, ...] = ()
    fixed: dict[str, JsonValue] = Field(default_factory=dict)
    options: dict[str, JsonValue] = Field(default_factory=dict)
    removed: dict[str, _Texts] = Field(default_factory=dict)
    instead: dict[str, ShortText] = Field(default_factory=dict)
    rules: tuple[_RulePart, ...] = ()
    runtimes: tuple[_RuntimePart, ...] = ()
    modules: dict[ShortText, dict[ShortText, str]] = Field(default_factory=dict)
    """What these methods need of an image beside what its runtime asks for, by the framework's version."""
    metrics: tuple[_MetricPart, ...] = ()
    checkpoints: _CheckpointPart | None = None
    completion: _CompletionPart | None = None


class Manifest(Shared):
    """The content of a `recipe.yaml`. What it holds itself stands above what it includes."""

    include: tuple[ShortText, ...] = ()
    name: RecipeName
    version: ShortText
    summary: _Texts
    framework: Slug
    adapter: Slug
    entry: _EntryPart
    roles: tuple[Slug, ...] = Field(min_length=1)
    open_parameters: bool = False
    primary_metric: _PrimaryPart | None = None
    actions: tuple[str, ...] = ()
    needs: tuple[Need, ...] = ()
    requires_core: ShortText

    @model_validator(mode="after")
    def _expressions_and_ranges_hold(self) -> Self:
        for rule in self.rules:
            check_expression(rule.require)
            check_expression(rule.when or "True")
        variants = [one.versions for part in self.parameters for one in part.variants]
        own = [part.versions for part in self.parameters] + [part.versions for part in self.rules]
        for versions in (*own, *variants):
            is_in_range("1", versions)
        return self

    def including(self, shared: Shared) -> "Manifest":
        """This manifest above `shared`: lists follow one another; of two things with one name, the one here stands."""
        own = {parameter.name for parameter in self.parameters}
        below = tuple(parameter for parameter in shared.parameters if parameter.name not in own)
        return self.model_copy(
            update={
                "parameters": (*self.parameters, *below),
                "platform_parameters": (*self.platform_parameters, *shared.platform_parameters),
                "fixed": {**shared.fixed, **self.fixed},
                "options": {**shared.options, **self.options},
                "removed": {**shared.removed, **self.removed},
                "instead": {**shared.instead, **self.instead},
                "rules": (*self.rules, *shared.rules),
                "runtimes": self.runtimes or shared.runtimes,
                "modules": {**shared.modules, **self.modules},
                "metrics": self.metrics or shared.metrics,
                "checkpoints": self.checkpoints or shared.checkpoints,
                "completion": self.completion or shared.completion,
            }
        )

    def build(self, manifest_digest: Digest, template_digest: Digest) -> Recipe:
        """The recipe with the digests of its two halves. Raises ProjectError where something is said nowhere."""
        primary = self.primary_metric
        if self.checkpoints is None or self.completion is None:
            missing = "checkpoints" if self.checkpoints is None else "completion"
            raise ProjectError(
                f"the recipe {self.name} does not say its {missing}",
                why="neither its recipe.yaml nor what that includes has them",
                next_step=f"add {missing}: to one of them",
            )
        return Recipe(
            name=self.name,
            version=self.version,
            summary=self.summary.by_language(),
            framework=self.framework,
            adapter=self.adapter,
            entry=Entry(**self.entry.model_dump()),
            roles=self.roles,
            parameters=tuple(part.build() for part in self.parameters),
            open_parameters=self.open_parameters,
            platform_parameters=self.platform_parameters,
            fixed=_freeze(self.fixed),
            options=_freeze(self.options),
            rules=tuple(part.build() for part in self.rules),
            runtimes=tuple(part.build(self.modules) for part in self.runtimes),
            metrics=tuple(MetricOrigin(**part.model_dump()) for part in self.metrics),
            primary_metric=PrimaryMetric(**primary.model_dump()) if primary else None,
            checkpoints=Checkpoints(**self.checkpoints.model_dump()),
            completion=Completion(**self.completion.model_dump()),
            actions=self.actions,
            needs=self.needs,
            instead=dict(self.instead),
            removed={name: texts.by_language() for name, texts in self.removed.items()},
            requires_core=self.requires_core,
            manifest_digest=manifest_digest,
            template_digest=template_digest,
        )


def _freeze(settings: dict[str, JsonValue]) -> Mapping[str, Any]:
    return dict(settings)
