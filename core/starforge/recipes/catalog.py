"""The catalog: every method that comes with StarForge, read from the folders below `builtin/`.

Adding a method adds the folder `builtin/<framework>/<method>/` with its `recipe.yaml` and `template/`. What methods of
one framework share lies in files beside their folders, which they include: it counts as a part of each.
"""

import hashlib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final, TypeVar

from pydantic import ValidationError

from starforge.contract.canonical import Json, digest_json
from starforge.contract.ids import Digest
from starforge.contract.jobspec import describe_faults
from starforge.errors import NotFound, ProjectError
from starforge.recipes.manifest import Manifest, Shared
from starforge.recipes.model import Recipe
from starforge.recipes.yaml12 import read_yaml
from starforge.wording import count_of, describe_nearest, join_sentences

MANIFEST_FILE: Final = "recipe.yaml"
TEMPLATE_FOLDER: Final = "template"
_BUILTIN: Final = Path(__file__).parent / "builtin"


@cache
def load_catalog() -> Mapping[str, Recipe]:
    """Every built-in recipe by its name; one that cannot be used raises ProjectError when it is asked for."""
    return load_recipes(_BUILTIN)


def load_recipes(root: Path) -> Mapping[str, Recipe]:
    """Every recipe below `root` (`<framework>/<method>/recipe.yaml`) by its name, sorted; read when it is asked for."""
    return _Recipes(root)


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
    manifest, content = _read_part(file, Manifest)
    expected = "/".join(folder.parts[-2:])
    if manifest.name != expected:
        raise ProjectError(
            f"{file} names itself {manifest.name!r}",
            why=f"its folder says {expected!r}",
            next_step="let name and folder agree",
        )
    contents = [content]
    for name in manifest.include:
        shared, content = _read_part(folder.parent / name, Shared)
        manifest = manifest.including(shared)
        contents.append(content)
    return manifest.build(digest_json(contents), digest_template(read_template(folder)))


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


class _Recipes(Mapping[str, Recipe]):
    """Recipes that are read when they are asked for: most commands need one of them."""

    def __init__(self, root: Path) -> None:
        folders = sorted(path.parent for path in root.glob(f"*/*/{MANIFEST_FILE}"))
        self._folders = {"/".join(folder.parts[-2:]): folder for folder in folders}
        self._read: dict[str, Recipe] = {}

    def __getitem__(self, name: str) -> Recipe:
        if name not in self._read:
            self._read[name] = load_recipe(self._folders[name])
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._folders)

    def __len__(self) -> int:
        return len(self._folders)

    def __contains__(self, name: object) -> bool:
        return name in self._folders


_PartT = TypeVar("_PartT", bound=Shared)


def _read_part(file: Path, kind: type[_PartT]) -> tuple[_PartT, Json]:
    """`file` as `kind`, and its content as it stands there."""
    try:
        document = read_yaml(file.read_bytes(), str(file))
    except OSError as error:
        raise ProjectError(f"{file} cannot be read", why=str(error.strerror), next_step="install it again") from error
    if document.faults:
        fault = document.faults[0]
        raise ProjectError(f"{fault.place}: {fault.message}", next_step=fault.hint)
    try:
        return kind.model_validate(document.value), document.value
    except ValidationError as error:
        raise ProjectError(
            f"{file} has {count_of(error.error_count(), 'fault')}",
            why=describe_faults(error),
            next_step="mend the fields that are named",
        ) from error
