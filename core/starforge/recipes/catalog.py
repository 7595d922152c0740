"""The catalog: every method that comes with StarForge, read from the folders below `builtin/`.

Adding a method adds the folder `builtin/<framework>/<method>/` with its `recipe.yaml` and `template/`.
"""

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from starforge.contract.canonical import digest_json
from starforge.contract.ids import Digest
from starforge.contract.jobspec import RecipeName, ShortText, Slug, describe_faults
from starforge.errors import NotFound, ProjectError
from starforge.recipes.model import (
    Checkpoints,
    Completion,
    Entry,
    EntryKind,
    MetricKind,
    MetricOrigin,
    Parameter,
    ParameterType,
    PrimaryMetric,
    Recipe,
    Runtime,
)
from starforge.recipes.yaml12 import read_yaml
from starforge.wording import count_of, describe_nearest, join_sentences

MANIFEST_FILE: Final = "recipe.yaml"
TEMPLATE_FOLDER: Final = "template"
_BUILTIN: Final = Path(__file__).parent / "builtin"


@cache
def load_catalog() -> Mapping[str, Recipe]:
    """Every built-in recipe by its name.

    Raises:
        ProjectError: a recipe's folder cannot be used; says which file and where.

    """
    return load_recipes(_BUILTIN)


def load_recipes(root: Path) -> Mapping[str, Recipe]:
    """Every recipe below `root` (`<framework>/<method>/recipe.yaml`) by its name, sorted."""
    folders = sorted(path.parent for path in root.glob(f"*/*/{MANIFEST_FILE}"))
    return MappingProxyType({recipe.name: recipe for recipe in map(load_recipe, folders)})


def load_method(name: str) -> Recipe:
    """The built-in recipe `name`, or NotFound with the nearest name."""
    catalog = load_catalog()
    if name not in catalog:
        hint = describe_nearest(name, catalog)
        raise NotFound(f"there is no method {name!r}", next_step=join_sentences(hint, "`sf methods` lists them all"))
    return catalog[name]


def load_template(name: str) -> Mapping[str, bytes]:
    """The files of a fresh experiment of the built-in method `name`: relative path to content."""
    return read_template(_BUILTIN / name)


def load_recipe(folder: Path) -> Recipe:
    """The recipe in `folder`, whose last two names must be the recipe's name."""
    file = folder / MANIFEST_FILE
    document = read_yaml(file.read_bytes(), str(file))
    if document.faults:
        fault = document.faults[0]
        raise ProjectError(f"{fault.place}: {fault.message}", next_step=fault.hint)
    try:
        manifest = _Manifest.model_validate(document.value)
    except ValidationError as error:
        raise ProjectError(
            f"{file} has {count_of(error.error_count(), 'fault')}",
            why=describe_faults(error),
            next_step="mend the fields that are named",
        ) from error
    expected = "/".join(folder.parts[-2:])
    if manifest.name != expected:
        raise ProjectError(
            f"{file} names itself {manifest.name!r}",
            why=f"its folder says {expected!r}",
            next_step="let name and folder agree",
        )
    return _build_recipe(manifest, digest_json(document.value), digest_template(read_template(folder)))


def read_template(folder: Path) -> Mapping[str, bytes]:
    """The template's files below a recipe's `folder`.

    A file `x.py.template` is the experiment's `x.py`: under its own name installers would compile it.
    """
    root = folder / TEMPLATE_FOLDER
    files = [path for path in sorted(root.rglob("*")) if path.is_file()]
    return {path.relative_to(root).as_posix().removesuffix(".template"): path.read_bytes() for path in files}


def digest_template(files: Mapping[str, bytes]) -> Digest:
    """The digest of a template: of names and contents, not of modes, which installing does not always keep."""
    return digest_json({path: hashlib.sha256(content).hexdigest() for path, content in files.items()})


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _ParameterPart(_Part):
    name: ShortText
    group: ShortText
    type: ParameterType
    path: ShortText
    help: ShortText
    default: JsonValue = None
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()


class _EntryPart(_Part):
    kind: EntryKind
    file: ShortText
    executable: bool = False


class _RuntimePart(_Part):
    id: Slug
    version: ShortText | None = None
    image: ShortText
    python: str = ""
    modules: dict[str, str] = Field(default_factory=dict)


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
    kind: Literal["finish", "steps", "unknown"]
    total_steps_parameter: str | None = None


class _Manifest(_Part):
    name: RecipeName
    version: ShortText
    summary: dict[str, ShortText]
    framework: Slug
    adapter: Slug
    entry: _EntryPart
    roles: tuple[Slug, ...] = Field(min_length=1)
    parameters: tuple[_ParameterPart, ...]
    open_parameters: bool = False
    platform_parameters: tuple[str, ...] = ()
    runtimes: tuple[_RuntimePart, ...] = Field(min_length=1)
    metrics: tuple[_MetricPart, ...]
    primary_metric: _PrimaryPart | None = None
    checkpoints: _CheckpointPart
    completion: _CompletionPart
    actions: tuple[str, ...] = ()
    requires_core: ShortText


def _build_recipe(manifest: _Manifest, manifest_digest: Digest, template_digest: Digest) -> Recipe:
    primary = manifest.primary_metric
    return Recipe(
        name=manifest.name,
        version=manifest.version,
        summary=manifest.summary,
        framework=manifest.framework,
        adapter=manifest.adapter,
        entry=Entry(**manifest.entry.model_dump()),
        roles=manifest.roles,
        parameters=tuple(Parameter(**part.model_dump()) for part in manifest.parameters),
        open_parameters=manifest.open_parameters,
        platform_parameters=manifest.platform_parameters,
        runtimes=tuple(Runtime(**part.model_dump()) for part in manifest.runtimes),
        metrics=tuple(MetricOrigin(**part.model_dump()) for part in manifest.metrics),
        primary_metric=PrimaryMetric(**primary.model_dump()) if primary else None,
        checkpoints=Checkpoints(**manifest.checkpoints.model_dump()),
        completion=Completion(**manifest.completion.model_dump()),
        actions=manifest.actions,
        requires_core=manifest.requires_core,
        manifest_digest=manifest_digest,
        template_digest=template_digest,
    )
