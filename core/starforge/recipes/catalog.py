"""The catalog: every method that comes with StarForge, read from the folders below `builtin/`.

Adding a method adds the folder `builtin/<framework>/<method>/` with its `recipe.yaml` and `template/`. What methods of
one framework share lies in files beside their folders, which they include: it counts as a part of each.

Reading a method's YAML with positions takes a tenth of a second and more, on a busy machine half of one. Beside each
`x.yaml` there may be an `x.json` with the same content and the digest of the YAML that it was made of: it is taken only
while that is the YAML which lies there, so that an edited file counts at once. `make fix` writes it, `make check`
compares it.
"""

import hashlib
import json
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
    contents: list[Json] = [content]
    for name in manifest.include:
        shared, content = _read_part(folder.parent / name, Shared)
        manifest = manifest.including(shared)
        contents.append(content)
    return manifest.build(digest_json(contents), digest_template(read_template(folder)))


def render_compiled(file: Path) -> str:
    """What belongs into the `.json` beside the YAML `file`: a line for each parameter, rule and runtime."""
    content = file.read_bytes()
    value = _parse(file, content)
    members = [f"{json.dumps(key)}: {_render_member(member)}" for key, member in value.items()]
    return f'{{"of": "{_fingerprint(content)}", "content": {{\n' + ",\n".join(members) + "\n}}\n"


def list_parts(root: Path = _BUILTIN) -> list[Path]:
    """Every YAML file below `root` that is a recipe or a part of several."""
    return sorted([*root.glob(f"*/*/{MANIFEST_FILE}"), *root.glob("*/*.yaml")])


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


def _read_part(file: Path, kind: type[_PartT]) -> tuple[_PartT, dict[str, Json]]:
    """`file` as `kind`, and its content as it stands there."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise ProjectError(f"{file} cannot be read", why=str(error.strerror), next_step="install it again") from error
    value = _find_compiled(file, content) or _parse(file, content)
    try:
        return kind.model_validate(value), value
    except ValidationError as error:
        raise ProjectError(
            f"{file} has {count_of(error.error_count(), 'fault')}",
            why=describe_faults(error),
            next_step="mend the fields that are named",
        ) from error


def _parse(file: Path, content: bytes) -> dict[str, Json]:
    from starforge.recipes.yaml12 import read_yaml  # noqa: PLC0415 - not where every part was compiled

    document = read_yaml(content, str(file))
    if document.faults:
        fault = document.faults[0]
        raise ProjectError(f"{fault.place}: {fault.message}", next_step=fault.hint)
    return dict(document.mapping())


def _find_compiled(file: Path, content: bytes) -> dict[str, Json] | None:
    """What was made of exactly this content; None where there is nothing, or nothing newer."""
    try:
        compiled = json.loads(file.with_suffix(".json").read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(compiled, dict) or compiled.get("of") != _fingerprint(content):
        return None
    value = compiled.get("content")
    return value if isinstance(value, dict) else None


def _fingerprint(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _render_member(member: Json) -> str:
    if not isinstance(member, list) or not member:
        return json.dumps(member, ensure_ascii=False)
    return "[\n" + ",\n".join(json.dumps(item, ensure_ascii=False) for item in member) + "\n]"
