"""Where a workspace came from, by git's own answer, and whether its bytes are those of the commit."""

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starforge.contract import jobspec
from starforge.contract.ids import Digest
from starforge.contract.remotes import strip_credentials
from starforge.workspace.clone import Clone
from starforge.workspace.git import GitStanding, Repository, find_repository
from starforge.workspace.manifest import Manifest
from starforge.workspace.pack import Packed

_DIRTY_FILES_KEPT: Final = 1000
_DIRTY_FILES_NAMED: Final = 20
_COMPARED_BYTES: Final = 64 << 20
_LFS: Final = re.compile(rb"version https://git-lfs\.github\.com/spec/v1\n(?:.*\n)*oid sha256:([0-9a-f]{64})\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What git said. `standing` tells an answer of None from a question that could not be asked."""

    standing: GitStanding
    commit: str | None = None
    branch: str | None = None
    remote: str | None = None
    dirty_files: tuple[str, ...] = ()
    line_ends_only: tuple[str, ...] = ()
    """Files that differ from the commit in line ends alone, or only by what .gitattributes says: not dirty."""
    submodules: tuple[tuple[str, str], ...] = ()
    clone: Clone | None = None
    """Whose workspace the tree is, to the byte: then the rest is what was known of that job's."""

    @property
    def dirty(self) -> bool:
        """Whether what is packed is not what the commit holds."""
        return bool(self.dirty_files)

    def name_dirty(self) -> str:
        """The first of the dirty files, and how many more there are."""
        shown = ", ".join(self.dirty_files[:_DIRTY_FILES_NAMED])
        more = len(self.dirty_files) - _DIRTY_FILES_NAMED
        return f"{shown} and {more} more" if more > 0 else shown


def load_origin(manifest: Manifest, packed: Packed | None = None) -> Origin:
    """Git's answer about the packed tree. Only paths that travel, or should have, make it dirty.

    A clone comes from where its job came from, as long as it packs to the same digest; afterwards its commit is the one
    that it was changed from, unless it has become a repository of its own.

    Raises:
        ProjectError: git failed in a way that is no answer.

    """
    if manifest.clone is not None and packed is not None:
        found = _trace_clone(manifest, manifest.clone, packed)
        if found is not None:
            return found
    repository = manifest.repository
    if repository is None:
        return Origin(standing=manifest.standing)
    commit = repository.find_meanwhile("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    branch = repository.find_meanwhile("symbolic-ref", "--quiet", "--short", "HEAD")
    remotes, index = repository.find_meanwhile("remote"), repository.ask_meanwhile("ls-files", "--stage", "-z")
    changes = list(_find_changes(repository))
    travels = {entry.path for entry in manifest.entries}
    dirty: list[str] = []
    line_ends: list[str] = []
    for change in changes:
        path = change.path.rstrip("/")
        inside = path in travels or any(name.startswith(path + "/") for name in travels)
        if not inside and change.code in {"?", "!"}:
            continue
        (line_ends if _differs_in_line_ends_only(repository, change) else dirty).append(path)
    return Origin(
        standing=manifest.standing,
        commit=commit(),
        branch=branch(),
        remote=_find_remote(repository, (remotes() or "").splitlines()),
        dirty_files=tuple(sorted(dirty)),
        line_ends_only=tuple(sorted(line_ends)),
        submodules=tuple(_find_submodules(repository, index())),
    )


def build_provenance(origin: Origin, config_digest: Digest | None) -> jobspec.Provenance:
    """The part of a JobSpec that says where its workspace came from."""
    return jobspec.Provenance(
        commit=origin.commit,
        branch=_clip(origin.branch),
        remote=_clip(origin.remote),
        dirty=origin.dirty,
        dirty_files=tuple(_printable(path)[:_DIRTY_FILES_KEPT] for path in origin.dirty_files[:_DIRTY_FILES_KEPT]),
        config_digest=config_digest,
        submodules=tuple(jobspec.Submodule(path=_printable(path), commit=commit) for path, commit in origin.submodules),
    )


def _trace_clone(manifest: Manifest, clone: Clone, packed: Packed) -> Origin | None:
    """Where a clone comes from; None where its job's commit says nothing of it any more, or there is none."""
    known = clone.provenance
    is_whole = packed.digest == clone.workspace
    if not is_whole and (manifest.repository is not None or known.commit is None):
        return None
    present = {file.path: file.sha256 for file in packed.files}
    changed = {path for path, _ in present.items() ^ clone.files.items()}
    return Origin(
        standing=manifest.standing,
        commit=known.commit,
        branch=known.branch,
        remote=known.remote,
        dirty_files=known.dirty_files if is_whole else tuple(sorted({*known.dirty_files, *changed})),
        submodules=tuple((one.path, one.commit) for one in known.submodules),
        clone=clone if is_whole else None,
    )


@dataclass(frozen=True, slots=True)
class _Change:
    path: str
    code: str
    """`?` untracked; `1`, `2`, `u` as in git's porcelain v2."""
    mode_head: str = ""
    mode_tree: str = ""
    blob: str = ""


def _find_changes(repository: Repository) -> Iterator[_Change]:
    answer = repository.ask(
        "status", "--porcelain=v2", "-z", "--no-renames", "--untracked-files=all", "--ignore-submodules=none", "--", "."
    )
    for record in answer.split(b"\0"):
        if not record:
            continue
        text = os.fsdecode(record)
        code = text[0]
        if code == "?":
            yield _Change(_below(repository, text[2:]), code)
        elif code == "1":
            fields = text.split(" ", 8)
            yield _Change(_below(repository, fields[8]), code, fields[3], fields[5], fields[6])
        elif code == "u":
            yield _Change(_below(repository, text.split(" ", 10)[10]), code)


def _below(repository: Repository, path: str) -> str:
    return path.removeprefix(repository.prefix)


def _differs_in_line_ends_only(repository: Repository, change: _Change) -> bool:
    """Whether git's "modified" is about line ends, times or attributes, not about other bytes."""
    if change.code != "1" or change.mode_head != change.mode_tree or not change.mode_head.startswith("100"):
        return False
    file = repository.root / change.path
    status = file.lstat()
    if not stat.S_ISREG(status.st_mode) or status.st_size > _COMPARED_BYTES:
        return False
    committed = repository.ask("cat-file", "blob", change.blob)
    present = file.read_bytes()
    pointer = _LFS.match(committed)
    if pointer:
        return hashlib.sha256(present).hexdigest() == pointer[1].decode()
    return committed.replace(b"\r\n", b"\n") == present.replace(b"\r\n", b"\n")


def _find_remote(repository: Repository, names: Sequence[str]) -> str | None:
    if not names:
        return None
    name = "origin" if "origin" in names else names[0]
    remote = repository.find("config", "--get", f"remote.{name}.url")
    return strip_credentials(remote) if remote else None


def _find_submodules(repository: Repository, index: bytes) -> Iterator[tuple[str, str]]:
    for record in index.split(b"\0"):
        head, _, path = os.fsdecode(record).partition("\t")
        if head.startswith("160000 "):
            present = _find_inner_commit(repository.root / path)
            yield path, present or head.split(" ")[1]


def _find_inner_commit(folder: Path) -> str | None:
    if not folder.is_dir():
        return None
    _, inner = find_repository(folder)
    return inner.find("rev-parse", "HEAD") if inner is not None and not inner.prefix else None


def _clip(text: str | None) -> str | None:
    return _printable(text)[:300] if text else None


def _printable(path: str) -> str:
    return os.fsencode(path).decode(errors="replace")
