"""What an attempt left: committed and unfinished checkpoints, and files of the output directory."""

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from starforge.contract.capsule import CHECKPOINT_MANIFEST, CKPT_DIRECTORY
from starforge_console.ingest.spool import StrangeFile, open_file, open_folder

FILES_AT_MOST: Final = 10_000
"""So many files and folders are looked at in one tree; an attempt that left more is listed in part."""
ENTRIES_MEASURED: Final = 100_000
"""So many files are added up in one tree; what lies beyond does not count."""
FOLDERS_DEEP: Final = 32
MANIFEST_BYTES: Final = 4 << 20
_MANIFEST_DEPTH: Final = 2


_Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]


class _File(msgspec.Struct):
    bytes: _Count = 0


class _Manifest(msgspec.Struct):
    step: _Count
    files: dict[str, _File]


_MANIFEST: Final = msgspec.json.Decoder(_Manifest)


def list_checkpoints(root: Path) -> list[dict[str, Any]]:
    """The checkpoints below `root`, which holds their folder, by step; paths are relative to it.

    Committed is one with a readable manifest. A numbered folder without one is listed as not committed.
    """
    folders: dict[str, dict[str, Any]] = {}
    sizes: dict[str, int] = {}
    for folder, name, size_bytes in _list_files(root, CKPT_DIRECTORY):
        parts = folder.split("/") if folder else []
        if name == CHECKPOINT_MANIFEST and len(parts) <= _MANIFEST_DEPTH:
            manifest = _find_manifest(root, parts)
            if manifest is not None:
                folders[folder] = _committed(folder, manifest)
        if parts:
            sizes[parts[0]] = sizes.get(parts[0], 0) + size_bytes
    holding = {folder.split("/", 1)[0] for folder in folders}
    for folder, size_bytes in sizes.items():
        numbers = re.findall(r"\d+", folder)
        if numbers and folder not in holding:
            path = f"{CKPT_DIRECTORY}/{folder}"
            step = int(numbers[-1][:18])
            folders[folder] = {"step": step, "path": path, "bytes": size_bytes, "committed": False}
    return sorted(folders.values(), key=lambda row: (row["step"], row["path"]))


def list_artifacts(out: Path) -> list[dict[str, Any]]:
    """The files of the output directory without their digests."""
    return [
        {"path": f"{folder}/{name}" if folder else name, "bytes": size_bytes, "sha256": None}
        for folder, name, size_bytes in _list_files(out)
    ]


def measure_files(root: Path, *names: str) -> int:
    """How many bytes the plain files below hold, one that has several names once; nothing behind a link counts.

    Raises Unavailable when the storage refuses.
    """
    total, seen = 0, 0
    linked: set[tuple[int, int]] = set()
    with contextlib.suppress(StrangeFile), open_folder(root, *names) as top:
        if top is None:
            return 0
        for folder, folders, files, descriptor in os.fwalk(".", dir_fd=top, follow_symlinks=False):
            if folder.count("/") >= FOLDERS_DEEP:
                folders.clear()
            for name in files:
                found = _find_stat(name, descriptor)
                seen += 1
                if seen > ENTRIES_MEASURED:
                    return total
                if found is None or (found.st_nlink > 1 and (found.st_dev, found.st_ino) in linked):
                    continue
                if found.st_nlink > 1:
                    linked.add((found.st_dev, found.st_ino))
                total += found.st_size
    return total


def _list_files(root: Path, *names: str) -> Iterator[tuple[str, str, int]]:
    """(folder, name, bytes) of the plain files below, none of them reached through a link."""
    seen = 0
    with open_folder(root, *names) as top:
        if top is None:
            return
        for folder, folders, files, descriptor in os.fwalk(".", dir_fd=top, follow_symlinks=False):
            folders.sort()
            seen += len(folders)
            if folder.count("/") >= FOLDERS_DEEP:
                folders.clear()  # each level holds a descriptor, and a job may nest as deep as it likes
            for name in sorted(files):
                found = _find_stat(name, descriptor)
                if found is None or not _is_text(folder + name):
                    continue
                seen += 1
                if seen > FILES_AT_MOST:
                    return
                yield folder.removeprefix(".").removeprefix("/"), name, found.st_size


def _find_stat(name: str, folder: int) -> os.stat_result | None:
    """What the file system says of a plain file; None for anything else, or when it has gone."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None
    return found if stat.S_ISREG(found.st_mode) else None


def _is_text(path: str) -> bool:
    """Whether the name can be shown and stored: bytes that are no UTF-8 come as lone surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in path)


def _find_manifest(root: Path, parts: list[str]) -> _Manifest | None:
    try:
        with open_file(root, CKPT_DIRECTORY, *parts, CHECKPOINT_MANIFEST) as file:
            return None if file is None else _MANIFEST.decode(file.read(0, MANIFEST_BYTES))
    except (StrangeFile, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _committed(folder: str, manifest: _Manifest) -> dict[str, Any]:
    path = f"{CKPT_DIRECTORY}/{folder}" if folder else CKPT_DIRECTORY
    size_bytes = sum(file.bytes for file in manifest.files.values())
    return {"step": manifest.step, "path": path, "bytes": size_bytes, "committed": True}
