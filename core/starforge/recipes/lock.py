"""`recipe.lock.json` (`forge/recipe-lock/v4`): the version of the method an experiment was made with.

Nothing here rewrites a lock that is already there; `compare_lock` only says how it stands to the catalog. The one way
to another version is `recipes.upgrade`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from starforge.contract.ids import Digest
from starforge.contract.jobspec import DigestText, RecipeName, ShortText, Slug, describe_faults
from starforge.contract.versions import parse_release
from starforge.errors import ProjectError
from starforge.recipes.files import load_file
from starforge.recipes.model import EntryKind, ParameterType, Recipe, Runtime, digest_recipe

LOCK_FILE: Final = "recipe.lock.json"
LOCK_VERSION: Final = "forge/recipe-lock/v4"

_MEND: Final = "restore it from git; where it still names its method, `sf recipe upgrade` writes it anew"


class LockState(StrEnum):
    """How a lock stands to the catalog of this installation."""

    CURRENT = "current"
    COMPATIBLE = "compatible"
    INCOMPATIBLE = "incompatible"
    RUNTIME_REMOVED = "runtime_removed"
    MALFORMED = "malformed"


@dataclass(frozen=True, slots=True)
class LockStanding:
    """A lock's state and, unless it is current, why.

    `usable`: a job can be submitted with it. `upgradable`: `sf recipe upgrade` can move it to what is here.
    """

    state: LockState
    why: str = ""
    upgradable: bool = True

    @property
    def usable(self) -> bool:
        """Whether the experiment can run with this installation's version of the method."""
        return self.state in {LockState.CURRENT, LockState.COMPATIBLE}


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class LockedRecipe(_Part):
    """The method by name, version and the digests of its two halves."""

    name: RecipeName
    version: ShortText
    manifest_digest: DigestText
    template_digest: DigestText

    @property
    def digest(self) -> Digest:
        """The digest that a JobSpec names."""
        return digest_recipe(Digest(self.manifest_digest), Digest(self.template_digest))


class LockedFramework(_Part):
    """The framework, its version and the runtime of the recipe that holds it."""

    kind: Slug
    version: ShortText | None = None
    runtime: Slug


class LockedParameter(_Part):
    """Where a parameter goes in the framework's configuration, and what it takes."""

    path: ShortText
    type: ParameterType


class LockedBindings(_Part):
    """What the experiment's own files rely on."""

    entry_kind: EntryKind
    entry_value: ShortText
    parameters: dict[str, LockedParameter] = {}


class LockedNeeds(_Part):
    """The oldest StarForge that can run it."""

    core: ShortText


class Lock(BaseModel):
    """The content of a lock."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_by_name=True, validate_by_alias=True)

    api_version: Literal["forge/recipe-lock/v4"] = LOCK_VERSION
    recipe: LockedRecipe
    framework: LockedFramework
    bindings: LockedBindings
    requires: LockedNeeds


def build_lock(recipe: Recipe, runtime: Runtime) -> Lock:
    """The lock of a fresh experiment of `recipe` on `runtime`."""
    return Lock(
        recipe=LockedRecipe(
            name=recipe.name,
            version=recipe.version,
            manifest_digest=recipe.manifest_digest,
            template_digest=recipe.template_digest,
        ),
        framework=LockedFramework(kind=recipe.framework, version=runtime.version, runtime=runtime.id),
        bindings=LockedBindings(
            entry_kind=recipe.entry.kind,
            entry_value=recipe.entry.value,
            parameters={
                parameter.name: LockedParameter(path=parameter.path, type=parameter.type)
                for parameter in recipe.at(runtime.version).parameters
            },
        ),
        requires=LockedNeeds(core=recipe.requires_core),
    )


def render_lock(lock: Lock) -> str:
    """The text of the file: the same for the same lock on every machine."""
    return json.dumps(lock.model_dump(mode="json"), indent=2, ensure_ascii=False, sort_keys=True) + "\n"


def load_lock(file: Path) -> Lock:
    """The lock in `file`.

    Raises:
        ProjectError: it is missing or malformed, in the words that `sf validate` shows.

    """
    try:
        content = json.loads(load_file(file).decode())
    except FileNotFoundError:
        raise ProjectError(
            f"{file} is missing",
            why="an experiment is made with one version of a method",
            next_step="restore it from git, or make the experiment again with `sf new`",
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise ProjectError(f"{file} cannot be read", why=str(error), next_step=_MEND) from error
    try:
        return Lock.model_validate(content)
    except ValidationError as error:
        raise ProjectError(f"{file} is malformed", why=describe_faults(error), next_step=_MEND) from error


def find_named(file: Path) -> tuple[str, str | None] | None:
    """The method and the framework's version that a damaged lock still names; None where it names no method."""
    try:
        content = json.loads(load_file(file).decode())
    except (OSError, ValueError, RecursionError):
        return None
    recipe, framework = (content.get(key) if isinstance(content, dict) else None for key in ("recipe", "framework"))
    name = recipe.get("name") if isinstance(recipe, dict) else None
    version = framework.get("version") if isinstance(framework, dict) else None
    return (name, version if isinstance(version, str) else None) if isinstance(name, str) else None


def compare_lock(lock: Lock, catalog: Mapping[str, Recipe], core_version: str) -> LockStanding:
    """How `lock` stands to `catalog` and to the running core. Pure; MALFORMED is what `load_lock` raises for."""
    recipe = catalog.get(lock.recipe.name)
    if recipe is None:
        return LockStanding(
            LockState.RUNTIME_REMOVED, f"the method {lock.recipe.name} is no longer published", upgradable=False
        )
    if recipe.find_runtime(lock.framework.runtime) is None:
        offered = ", ".join(runtime.id for runtime in recipe.runtimes)
        why = f"{recipe.name} no longer offers the runtime {lock.framework.runtime}; it offers {offered}"
        return LockStanding(LockState.RUNTIME_REMOVED, why)
    if parse_release(core_version) < parse_release(lock.requires.core):
        why = f"it needs StarForge {lock.requires.core} or newer, this is {core_version}"
        return LockStanding(LockState.INCOMPATIBLE, why, upgradable=False)
    if (recipe.manifest_digest, recipe.template_digest) == (lock.recipe.manifest_digest, lock.recipe.template_digest):
        return LockStanding(LockState.CURRENT)
    broken = _find_broken_binding(lock.bindings, recipe.at(lock.framework.version))
    if broken:
        return LockStanding(LockState.INCOMPATIBLE, broken)
    why = f"made with version {lock.recipe.version}, here is {recipe.version}"
    if lock.recipe.version == recipe.version:
        why = f"made with another edition of version {recipe.version} than the one here"
    return LockStanding(LockState.COMPATIBLE, why)


def _find_broken_binding(bindings: LockedBindings, recipe: Recipe) -> str | None:
    if (bindings.entry_kind, bindings.entry_value) != (recipe.entry.kind, recipe.entry.value):
        return f"the method now starts {recipe.entry.value}, the experiment was made for {bindings.entry_value}"
    present = {parameter.name: parameter for parameter in recipe.parameters}
    for name, locked in bindings.parameters.items():
        parameter = present.get(name)
        if parameter is None:
            return f"the method no longer has the parameter {name}"
        if (parameter.path, parameter.type) != (locked.path, locked.type):
            return f"the parameter {name} now is {parameter.type} at {parameter.path}"
    return None
