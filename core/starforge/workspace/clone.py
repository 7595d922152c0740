"""The file with which a cloned workspace remembers its job. It never travels."""

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from starforge.contract.api import Difference
from starforge.contract.ids import Digest
from starforge.contract.jobspec import Provenance
from starforge.errors import ProjectError

CLONE_FILE: Final = ".starforge-clone.json"
_VERSION: Final = "forge/clone/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clone:
    """What a clone knows of its job.

    `files` is what was packed: of each path the digest of its content (of a link, of its target's text).
    """

    job: str
    workspace: Digest
    provenance: Provenance
    files: dict[str, str]
    difference: Difference | None = None


def find_clone(root: Path) -> Clone | None:
    """What the folder `root` was cloned from, if it was.

    Raises:
        ProjectError: its file cannot be read, or is none.

    """
    try:
        content: Any = json.loads((root / CLONE_FILE).read_bytes())
        if content["version"] != _VERSION:
            raise _broken(root, f"its version is {content['version']!r}, this version of StarForge reads {_VERSION}")
        difference = content["difference"]
        return Clone(
            job=str(content["job"]),
            workspace=Digest(content["workspace"]),
            provenance=Provenance.model_validate(content["provenance"]),
            files={str(path): str(sha256) for path, sha256 in content["files"].items()},
            difference=None if difference is None else Difference.model_validate(difference),
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise _broken(root, "" if isinstance(error, ValidationError) else str(error)) from error


def write_clone(root: Path, clone: Clone) -> None:
    """Let the folder `root` remember where it came from. Raises ProjectError when such a file is there."""
    content = {
        "version": _VERSION,
        "job": clone.job,
        "workspace": clone.workspace,
        "provenance": clone.provenance.model_dump(mode="json", exclude_defaults=True),
        "files": clone.files,
        "difference": None if clone.difference is None else clone.difference.model_dump(mode="json"),
    }
    try:
        with (root / CLONE_FILE).open("x", encoding="ascii") as file:
            json.dump(content, file)
    except FileExistsError as error:
        raise _broken(root, "the workspace brought one of its own") from error


def read_files(root: Path) -> dict[str, str]:
    """Every file and link below `root` with the digest of its content, as `Clone.files` has them."""
    return {path: _digest(root / path) for path in sorted(_walk(root, ""))}


def _walk(root: Path, folder: str) -> Iterator[str]:
    with os.scandir(root / folder) as entries:
        found = list(entries)
    for entry in found:
        path = f"{folder}{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(root, f"{path}/")
        else:
            yield path


def _digest(file: Path) -> str:
    if file.is_symlink():
        target = os.readlink(file)  # noqa: PTH115 - Path would rewrite the target's text
        return hashlib.sha256(os.fsencode(target)).hexdigest()
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _broken(root: Path, why: str) -> ProjectError:
    next_step = "remove it: the folder is then a project like any other; or clone the job again"
    return ProjectError(f"{root / CLONE_FILE} is no file of a clone", why=why, next_step=next_step)
