"""Remembers what a workspace was packed to, so that packing it again unchanged costs a look at each file.

What is remembered is used only when every file stands where it stood, with the same size and times, and when the newest
of those times lay well before the packing: a file written in the same instant could not be told from one written after.
"""

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from starforge.contract.ids import Digest
from starforge.workspace.manifest import Manifest
from starforge.workspace.pack import Packed, PackedFile, pack_manifest

_FORMAT: Final = 2
SETTLED_S: Final = 2.0
"""How old the newest change must be at least, so that no later one can have its time: file systems count coarsely."""

_KEPT: Final = 50


def pack_or_recall(
    manifest: Manifest,
    folder: Path,
    progress: Callable[[int], object] = lambda _bytes: None,
    *,
    settled_s: float = SETTLED_S,
) -> Packed:
    """What `manifest` packs to: remembered in `folder` where nothing has changed, otherwise packed and remembered.

    A memory that cannot be read or written is no error: the workspace is packed.

    Raises:
        PackError: as `pack_manifest` does.

    """
    file = folder / f"{hashlib.sha256(os.fsencode(manifest.root)).hexdigest()[:32]}.json"
    fingerprint = _build_fingerprint(manifest)
    remembered = _find_packed(file, fingerprint)
    if remembered is not None:
        return remembered
    began_ns = time.time_ns()
    packed = pack_manifest(manifest, None, progress)
    if _is_settled(manifest, began_ns - int(settled_s * 1e9)):
        _remember(file, fingerprint, packed)
    return packed


def find_memory_folder() -> Path:
    """Where this user's machine keeps what may be lost at any time."""
    base = os.environ.get("XDG_CACHE_HOME")
    return Path(base or Path.home() / ".cache") / "starforge" / "packed"


def _build_fingerprint(manifest: Manifest) -> str:
    lines = [(entry.path, entry.bytes, entry.executable, entry.link, entry.stamp) for entry in manifest.entries]
    wanted = [entry.path for entry in manifest.entries if entry.wanted]
    return hashlib.sha256(repr((_FORMAT, lines, wanted)).encode(errors="surrogateescape")).hexdigest()


def _is_settled(manifest: Manifest, limit_ns: int) -> bool:
    newest_ns = max((time_ns for entry in manifest.entries for time_ns in entry.stamp[2:]), default=0)
    return newest_ns < limit_ns


def _find_packed(file: Path, fingerprint: str) -> Packed | None:
    try:
        content: Any = json.loads(file.read_bytes())
        if content["fingerprint"] != fingerprint:
            return None
        files = tuple(PackedFile(*member) for member in content["files"])
        return Packed(Digest(content["digest"]), int(content["bytes"]), files)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _remember(file: Path, fingerprint: str, packed: Packed) -> None:
    files = [(one.path, one.bytes, one.mode, one.sha256, one.link) for one in packed.files]
    content = {"fingerprint": fingerprint, "digest": packed.digest, "bytes": packed.bytes, "files": files}
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, temporary = tempfile.mkstemp(dir=file.parent)
        with os.fdopen(handle, "w", encoding="ascii") as opened:
            json.dump(content, opened)
        Path(temporary).replace(file)
        _forget_oldest(file.parent)
    except OSError:
        return


def _forget_oldest(folder: Path) -> None:
    files = sorted(folder.glob("*.json"), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in files[_KEPT:]:
        file.unlink(missing_ok=True)
