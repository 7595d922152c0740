"""What a backup says of itself: where it comes from, and every file in it with its digest."""

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import msgspec

from starforge.wording import is_in_calendar
from starforge_console.errors import SettingsError

MANIFEST: Final = "manifest.json"
FORMAT: Final = 1
DATABASES: Final = ("ledger.db", "series.db")
STATE: Final = "state"
LOGS: Final = "logs"
_BLOCK_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFile:
    """One file; `path` is relative to the backup's folder."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Bytes of a log that the series names and that are not there, or are not those that it names."""

    attempt: str
    stream: str
    from_byte: int
    to_byte: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A whole backup: its manifest is written last. `made_at`: the moment of its ledger (Unix seconds)."""

    version: str
    made_at: float
    install: str
    storage: str
    database: str
    files: Sequence[KeptFile]
    gaps: Sequence[Gap]

    def write(self, folder: Path) -> None:
        """Write it into the backup, durably."""
        text = json.dumps({"format": FORMAT, **asdict(self)}, indent=1)
        with (folder / MANIFEST).open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())


@dataclass(frozen=True, slots=True)
class _Format:
    format: int


def load_manifest(folder: Path) -> Manifest:
    """The manifest of a backup. Raises SettingsError when there is none that can be read."""
    try:
        told = (folder / MANIFEST).read_bytes()
        kept = msgspec.json.decode(told, type=_Format).format
        if kept != FORMAT:
            raise SettingsError(
                f"the backup in {folder} is of another format: {kept}",
                why=f"this release reads format {FORMAT}",
                next_step="restore it with the release that made it, or a newer one",
            )
        manifest = msgspec.json.decode(told, type=Manifest)
    except (OSError, ValueError, RecursionError) as error:
        raise _no_backup(folder, str(error)) from error
    if not is_in_calendar(manifest.made_at):
        raise _no_backup(folder, f"made_at is {manifest.made_at!r}, which is no moment")
    for name in (*DATABASES, *(one.path for one in manifest.files)):
        if not _is_within(name):
            raise _no_backup(folder, f"it names {name!r:.200}, which is no file of the backup's folder")
    missing = set(DATABASES) - {one.path for one in manifest.files}
    if missing:
        raise _no_backup(folder, f"it names no {' and no '.join(sorted(missing))}")
    return manifest


def list_kept(folder: Path) -> list[KeptFile]:
    """Every file below the folder but the manifest, by path."""
    return [_read(folder, path) for path in sorted(_walk(folder)) if path != MANIFEST]


def check_files(folder: Path, manifest: Manifest) -> None:
    """Raises SettingsError unless every file of the backup is there as it was written."""
    for one in manifest.files:
        try:
            found = _read(folder, one.path)
        except OSError as error:
            raise _damaged(folder, one, error.strerror or str(error)) from error
        if found != one:
            raise _damaged(folder, one, f"it has {found.bytes} bytes and the digest {found.sha256}")


def _is_within(path: str) -> bool:
    parts = path.split("/")
    return path.isprintable() and not {"", ".", ".."} & {*parts}


def _no_backup(folder: Path, why: str) -> SettingsError:
    return SettingsError(
        f"there is no whole backup in {folder}",
        why=f"{MANIFEST}: {why}",
        next_step="name the folder that 'starforge-console backup' made",
    )


def _walk(folder: Path) -> Iterator[str]:
    for root, _, names in os.walk(folder):
        yield from (str((Path(root) / name).relative_to(folder)) for name in names)


def _read(folder: Path, path: str) -> KeptFile:
    digest, size = hashlib.sha256(), 0
    with (folder / path).open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
            size += len(block)
    return KeptFile(path=path, bytes=size, sha256=digest.hexdigest())


def _damaged(folder: Path, one: KeptFile, why: str) -> SettingsError:
    return SettingsError(
        f"the backup in {folder} is damaged: {one.path}", why=why, next_step="restore another backup, or mend that file"
    )
