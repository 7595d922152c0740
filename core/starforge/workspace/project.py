"""A project on disk: where its root is, what `starforge.yaml` says, which experiments it has."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starforge.errors import NotFound, ProjectError
from starforge.recipes.faults import Fault
from starforge.recipes.yaml12 import Document, read_yaml
from starforge.wording import count_of, describe_nearest
from starforge.workspace.pack import DEFAULT_LIMIT_BYTES

PROJECT_FILE: Final = "starforge.yaml"
PROJECT_VERSION: Final = "forge/project/v1"
EXPERIMENTS_FOLDER: Final = "experiments"
CONFIGS_FOLDER: Final = "configs"

NAME: Final = re.compile(r"[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?")
NAME_RULE: Final = "lower-case letters, digits, '.', '-', '_'; 63 at most; the first and last a letter or digit"

_KEYS: Final = {"apiVersion": str, "name": str, "created_by": str, "pack_limit_mib": int}


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project. `root` is absolute."""

    root: Path
    name: str
    pack_limit_bytes: int = DEFAULT_LIMIT_BYTES

    @property
    def experiments(self) -> tuple[str, ...]:
        """The names of the experiments, sorted: every folder but hidden ones, also one that lacks a file."""
        folders = (self.root / EXPERIMENTS_FOLDER).glob("*/")
        return tuple(sorted(path.name for path in folders if not path.name.startswith(".")))

    def folder_of(self, experiment: str) -> Path:
        """The folder of `experiment`, whether it exists or not."""
        return self.root / EXPERIMENTS_FOLDER / experiment


def find_root(start: Path) -> Path | None:
    """The nearest folder, upwards from `start`, that holds `starforge.yaml`."""
    start = Path(os.path.realpath(start))
    return next((folder for folder in (start, *start.parents) if (folder / PROJECT_FILE).is_file()), None)


def load_project(start: Path) -> Project:
    """The project that `start` lies in.

    Raises:
        ProjectError: there is none, or its file has faults; names every one.

    """
    root = find_root(start)
    if root is None:
        raise ProjectError(
            f"{start} lies in no project",
            why=f"neither it nor a folder above holds {PROJECT_FILE}",
            next_step="change into one, or make one with `sf init NAME`",
        )
    document = read_project_file(root)
    if document.faults:
        lines = [f"{fault.place}: {fault.message}" for fault in document.faults]
        hints = "; ".join(fault.hint for fault in document.faults if fault.hint)
        raise ProjectError(f"{PROJECT_FILE} has {count_of(len(lines), 'fault')}", why="; ".join(lines), next_step=hints)
    values = document.mapping()
    limit_mib = values.get("pack_limit_mib")
    limit = limit_mib << 20 if isinstance(limit_mib, int) else DEFAULT_LIMIT_BYTES
    return Project(root=root, name=str(values["name"]), pack_limit_bytes=limit)


def read_project_file(root: Path) -> Document:
    """`starforge.yaml` of `root` with every fault it has."""
    document = read_yaml((root / PROJECT_FILE).read_bytes(), PROJECT_FILE)
    values = document.mapping()
    for key, value in values.items():
        if key not in _KEYS:
            place, hint = document.key_place_of([key]), describe_nearest(key, _KEYS)
            document.faults.append(Fault("key_unknown", f"{PROJECT_FILE} has no key {key!r}", place, hint))
        elif not isinstance(value, _KEYS[key]) or isinstance(value, bool):
            wanted = "a text" if _KEYS[key] is str else "a whole number"
            document.faults.append(Fault("value_type", f"{key} must be {wanted}", document.place_of([key])))
    if document.faults:
        return document
    _check_version(document)
    name = values.get("name")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        message = f"the project's name is {name!r}"
        document.faults.append(Fault("value_name", message, document.place_of(["name"]), NAME_RULE))
    return document


def resolve_experiment(project: Project, text: str) -> str:
    """The experiment that `text` names: a name, or a path to its folder.

    Raises:
        NotFound: there is no such experiment; names the nearest.

    """
    name = text
    if "/" in text or text in {".", ".."}:
        path = Path(os.path.realpath(text))
        name = path.name if path.parent == project.root / EXPERIMENTS_FOLDER else text
    if project.folder_of(name).is_dir() and NAME.fullmatch(name):
        return name
    hint = describe_nearest(name, project.experiments) or f"make one with `sf new {name}`"
    raise NotFound(f"there is no experiment {name!r} in {project.name}", next_step=hint)


def _check_version(document: Document) -> None:
    version = document.mapping().get("apiVersion")
    if version != PROJECT_VERSION:
        message, place = f"apiVersion is {version!r}", document.place_of(["apiVersion"])
        document.faults.append(Fault("version_unknown", message, place, f"this version reads {PROJECT_VERSION}"))
