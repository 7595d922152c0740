"""How a dirty tree differs from its commit: git's own diff of what travels, bounded. The repository stays as it is."""

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from starforge.contract.api import DIFFERENCE_BYTES, Difference
from starforge.workspace.confidential import find_secret_name, hide_secrets
from starforge.workspace.git import Repository
from starforge.workspace.manifest import Manifest, load_own_rules
from starforge.workspace.provenance import Origin

_DIFF: Final = (
    *("-c", "core.bigFileThreshold=16m", "-c", "diff.suppressBlankEmpty=false", "-c", "diff.interHunkContext=0"),
    *("--literal-pathspecs", "diff", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames", "--relative"),
    *("--src-prefix=a/", "--dst-prefix=b/", "--unified=3", "--submodule=short", "--ignore-submodules=none"),
)
_ADD: Final = (
    "--literal-pathspecs",
    "add",
    "--intent-to-add",
    "--force",
    "--pathspec-from-file=-",
    "--pathspec-file-nul",
)
_NAMES_BYTES: Final = 64 << 10
_ROOM_BYTES: Final = 4 * DIFFERENCE_BYTES
"""More than is kept, so that it shows that there is more."""


def load_difference(manifest: Manifest, origin: Origin) -> Difference | None:
    """What a dirty tree changes of its commit (of nothing, where there is none yet); None when clean, or without git.

    New files are whole, binary and very large ones named. What does not travel is only named, and so is what looks
    like a secret: a file that was deleted too. A secret that was taken out of a file is hidden. A clone that is whole
    has the difference of its job.

    Raises:
        ProjectError: git failed in a way that is no answer.

    """
    if origin.clone is not None:
        return origin.clone.difference
    repository = manifest.repository
    if repository is None or not origin.dirty:
        return None
    with tempfile.TemporaryDirectory(prefix="sf-difference-") as folder:
        ours = _set_apart(repository, Path(folder))
        base = origin.commit or ours.ask("hash-object", "-t", "tree", os.devnull).decode().strip()
        ours.ask("read-tree", base)
        known = {os.fsdecode(name) for name in ours.ask("ls-files", "-z").split(b"\0") if name}
        shown, left_out = _divide(manifest, origin.dirty_files, known)
        new = [path for path in shown if path not in known]
        if new:
            ours.ask_either(*_ADD, stdin=b"\0".join(map(os.fsencode, new)), also=())
        content = b"".join(_read_diffs(ours, base, shown))
    named = "".join(f"not shown: {path}\n" for path in left_out)
    return bound_difference(hide_secrets(content).decode(errors="replace") + named)


def bound_difference(text: str) -> Difference:
    """As many whole lines of `text` as may be kept, counted as JSON writes them."""
    if _size(text) <= DIFFERENCE_BYTES:
        return Difference(text=text)
    kept, room = [], DIFFERENCE_BYTES
    for line in text.split("\n"):
        room -= _size(line + "\n")
        if room < 0:
            break
        kept.append(line + "\n")
    return Difference(text="".join(kept), is_cut=True)


def _size(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode()) - 2


def _set_apart(repository: Repository, folder: Path) -> Repository:
    """The repository with an index and new objects in `folder`: nothing is written to its own."""
    objects = repository.root / os.fsdecode(repository.ask("rev-parse", "--git-path", "objects")).removesuffix("\n")
    quoted = os.path.realpath(objects).replace("\\", "\\\\").replace('"', '\\"')
    (folder / "objects").mkdir()
    variables = {
        "GIT_INDEX_FILE": str(folder / "index"),
        "GIT_OBJECT_DIRECTORY": str(folder / "objects"),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": f'"{quoted}"',
    }
    return replace(repository, variables=variables)


def _divide(manifest: Manifest, paths: Iterable[str], known: set[str]) -> tuple[list[str], list[str]]:
    """The paths whose difference may be shown, and those that are only named."""
    packed, own = {entry.path for entry in manifest.entries}, load_own_rules(manifest.root)
    shown: list[str] = []
    left_out: list[str] = []
    for path in paths:
        file = manifest.root / path
        answer = own.find_file_answer(path)
        is_secret = find_secret_name(path) is not None and answer is not False
        is_deleted = not os.path.lexists(file) and not answer and not is_secret
        is_submodule = file.is_dir() and not file.is_symlink()
        fits = path in packed or (path in known and (is_deleted or is_submodule))
        (shown if fits else left_out).append(path)
    return shown, left_out


def _read_diffs(repository: Repository, base: str, paths: Sequence[str]) -> Iterator[bytes]:
    room = _ROOM_BYTES
    for part in _split(paths):
        content = repository.ask_start(*_DIFF, base, "--", *part, limit_bytes=room)
        yield content
        room -= len(content)
        if room <= 0:
            return


def _split(paths: Sequence[str]) -> Iterator[list[str]]:
    """The paths in parts that a command line can hold."""
    part: list[str] = []
    size = 0
    for path in paths:
        if size > _NAMES_BYTES:
            yield part
            part, size = [], 0
        part.append(path)
        size += len(os.fsencode(path)) + 1
    if part:
        yield part
