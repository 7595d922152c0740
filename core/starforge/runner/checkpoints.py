"""Committed checkpoints: a directory counts once its manifest was written, last and by rename."""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
import re
import time
from dataclasses import dataclass
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

from starforge.contract.capsule import CHECKPOINT_MANIFEST, CheckpointRule
from starforge.runner.plainfiles import (
    Troubles,
    list_files,
    load_bytes,
    match_paths,
    open_plain,
    parse_object,
    show_path,
    write_whole,
)

MANIFEST_VERSION = "1.0"
WHOLE_DIGEST_BYTES = 16 << 20  # files up to this size are digested whole, larger ones by samples
_SAMPLES = 16
_SAMPLE_BYTES = 64 << 10
_CHUNK_BYTES = 1 << 20
_MANIFEST_DEPTH = 3
_MANIFEST_BYTES = 8 << 20
_MOST_FILES = 50_000

Look = Tuple[Tuple[str, int, int], ...]


class UnlistedError(Exception):
    """A folder that cannot be listed whole is not committed."""


@dataclass(frozen=True)
class Committed:
    """A checkpoint with its manifest."""

    step: int
    path: str
    committed_at: float


def commit(directory: str, step: int) -> Committed:
    """Write the manifest of a directory that nobody writes to any more, by rename.

    Raises OSError and UnlistedError.
    """
    files = {name: _describe(os.path.join(directory, name)) for name, _, _ in _look(directory)}
    mark = Committed(step, directory, time.time())
    document = {"version": MANIFEST_VERSION, "step": step, "committed_at": mark.committed_at, "files": files}
    write_whole(os.path.join(directory, CHECKPOINT_MANIFEST), json.dumps(document, sort_keys=True).encode("ascii"))
    return mark


def find_committed(root: str, troubles: Optional[Troubles] = None) -> List[Committed]:
    """List the committed checkpoints at or below `root`, newest step first; content is not verified."""
    found = []
    for depth in range(_MANIFEST_DEPTH):
        for path in match_paths(root, "/".join(["*"] * depth + [CHECKPOINT_MANIFEST]), troubles):
            manifest = _find_manifest(path)
            if manifest is not None:
                found.append(Committed(manifest["step"], os.path.dirname(path), manifest["committed_at"]))
    return sorted(found, key=lambda mark: (mark.step, mark.committed_at), reverse=True)


def find_newest(roots: Iterable[str]) -> "tuple[Optional[Committed], list[str]]":
    """Find the newest sound checkpoint: the highest step of the first root (newest attempt first) that has any.

    The second part says of each committed checkpoint that had to be passed over why it is not sound, and which folders
    could not be looked into.
    """
    problems: List[str] = []
    for root in roots:
        troubles = Troubles(root)
        marks = find_committed(root, troubles)
        problems += [f"checkpoints below {show_path(root)} cannot be listed: {text}" for text in troubles.texts]
        for mark in marks:
            problem = _find_damage(mark.path)
            if problem is None:
                return mark, problems
            problems.append(f"checkpoint {show_path(mark.path)} is passed over: {problem}")
    return None, problems


class FolderWatch:
    """Commits the folders that a framework writes by itself, once they are complete by the rule.

    A folder that changes after it was committed is committed again: the rule may have been met before its last file.
    One that is in `mirrored` is an older attempt's for as long as any of those links is in it.
    """

    def __init__(self, rule: CheckpointRule, root: str, mirrored: Optional[Mapping[str, Look]] = None) -> None:
        self._rule = rule
        self.root = root
        self._mirrored = mirrored or {}
        self._looks: Dict[str, Look] = {}
        self._committed: Dict[str, Look] = {}

    def commit_complete(self, *, is_final: bool) -> List[Committed]:
        """Commit what is complete and unchanged since the last call; at the end (`is_final`) what is complete.

        Raises UnlistedError for a folder that cannot be committed, once the others are.
        """
        if self._rule.kind != "folders":
            return []
        committed = []
        problem: Optional[UnlistedError] = None
        for path in match_paths(self.root, self._rule.pattern):
            try:
                mark = self._find_commit(path, is_final=is_final)
            except UnlistedError as error:
                problem = error
                continue
            if mark is not None:
                committed.append(mark)
        if problem is not None and not committed:
            raise problem
        return committed

    def _find_commit(self, path: str, *, is_final: bool) -> Optional[Committed]:
        step = _find_step(path)
        if step is None or not os.path.isdir(path):
            return None
        try:
            look = _look(path)
            if not frozenset(self._mirrored.get(path, ())).isdisjoint(look):
                return None
            before, self._looks[path] = self._looks.get(path), look
            if path not in self._committed and _is_described(path, look):
                self._committed[path] = look  # the job has committed it itself
            if look == self._committed.get(path):
                return None
            if not _is_complete(look, self._rule.complete) or not (is_final or look == before):
                return None
            mark = commit(path, step)
        except OSError:
            return None  # the framework removed or replaced it meanwhile; the next look sees what is there then
        self._committed[path] = look
        return mark


def _find_step(path: str) -> Optional[int]:
    numbers = re.findall(r"\d+", os.path.basename(path))
    return int(numbers[-1]) if numbers else None


def _is_complete(look: Look, rules: Tuple[str, ...]) -> bool:
    names = [name for name, _, _ in look]
    for rule in rules:
        pattern, wanted = (rule[1:], False) if rule.startswith("!") else (rule, True)
        if any(fnmatch.fnmatchcase(name, pattern) for name in names) != wanted:
            return False
    return bool(names)


def _is_described(directory: str, look: Look) -> bool:
    """Say whether the directory's manifest names exactly these files in these sizes."""
    manifest = _find_manifest(os.path.join(directory, CHECKPOINT_MANIFEST))
    if manifest is None:
        return False
    described = {name: row.get("bytes") for name, row in manifest["files"].items() if isinstance(row, dict)}
    return described == {name: size for name, size, _ in look}


def _look(directory: str) -> Look:
    listing = list_files(directory, most_files=_MOST_FILES)
    if listing.problems:
        raise UnlistedError(f"checkpoint {show_path(directory)} cannot be listed: {listing.problems[0]}")
    if not listing.is_whole:
        text = f"checkpoint {show_path(directory)} holds more than {_MOST_FILES} files, or lies too deep"
        raise UnlistedError(f"{text}: keep fewer, larger files")
    return tuple(row for row in listing.files if not row[0].startswith(CHECKPOINT_MANIFEST))


def _find_manifest(path: str) -> Optional[Dict[str, Any]]:
    try:
        document = parse_object(load_bytes(path, _MANIFEST_BYTES))
        whole = isinstance(document["step"], int) and isinstance(document["files"], dict)
        return document if whole and isinstance(document["committed_at"], (int, float)) else None
    except (OSError, ValueError, KeyError):
        return None


def _find_damage(directory: str) -> Optional[str]:
    """Say what differs from the manifest, if anything."""
    manifest = _find_manifest(os.path.join(directory, CHECKPOINT_MANIFEST))
    if manifest is None:
        return "its manifest cannot be read"
    for name, row in manifest["files"].items():
        try:
            if _describe(os.path.join(directory, name)) != row:
                return f"{name} is not what was committed"
        except OSError as error:
            return f"{name} cannot be read ({error.strerror})"
    return None


def _describe(path: str) -> Dict[str, Any]:
    """Describe a file by size and digest, a link by its target. Raises OSError, also for what is neither."""
    if os.path.islink(path):
        return {"link": os.readlink(path)}
    digest = hashlib.sha256()
    with open(open_plain(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        kind = "sha256" if size <= WHOLE_DIGEST_BYTES else "sampled_sha256"
        for start, count in _list_parts(size):
            file.seek(start)
            digest.update(file.read(count))
    return {"bytes": size, kind: digest.hexdigest()}


def _list_parts(size: int) -> Iterable[Tuple[int, int]]:
    """List what is digested: (start, bytes). Bounded by the size that was found, whatever grows meanwhile."""
    if size <= WHOLE_DIGEST_BYTES:
        return [(start, min(_CHUNK_BYTES, size - start)) for start in range(0, size, _CHUNK_BYTES)]
    return [((size - _SAMPLE_BYTES) * index // (_SAMPLES - 1), _SAMPLE_BYTES) for index in range(_SAMPLES)]
