"""A job's files: listed folder by folder, and downloaded so that a cut, or a later call, goes on where it was."""

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode

from starforge.client.console import Console
from starforge.client.http import Tag
from starforge.contract.api import PAGE_LIMIT
from starforge.contract.files import FileEntry, FileList
from starforge.errors import InputError, Unavailable

_PIECE_BYTES: Final = 1 << 20
_PARTIAL: Final = ".sf-part"
_TAG: Final = ".sf-tag"

Progress = Callable[[int], object]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A file of a job: its path there, and the folder and name that it is to have here."""

    path: str
    target: Path
    entry: FileEntry


class FilesConsole(Console):
    """The console as its API shows the files of jobs."""

    def folder(self, job: str, path: str, cursor: str | None = None) -> FileList:
        """A page of the folder's entries."""
        query: dict[str, str | int] = {"path": path, "limit": PAGE_LIMIT}
        query |= {"cursor": cursor} if cursor else {}
        return self._get(FileList, f"/jobs/{quote(job, safe='')}/files", query)

    def entries(self, job: str, path: str) -> Iterator[FileEntry]:
        """Every entry of the folder, by name."""
        cursor: str | None = None
        while True:
            page = self.folder(job, path, cursor)
            yield from page.items
            cursor = page.next
            if cursor is None:
                return

    def find(self, job: str, path: str) -> FileEntry | None:
        """The entry at `path`, None when there is none."""
        folder, _, name = path.rpartition("/")
        return next((one for one in self.entries(job, folder) if one.name == name), None)

    def walk(self, job: str, path: str, target: Path, left_out: list[str] | None = None) -> Iterator[Wanted]:
        """Every plain file below the folder `path`, each with its place below `target`.

        The paths of links and of what is neither file nor folder are added to `left_out`.
        """
        for entry in self.entries(job, path):
            place = f"{path}/{entry.name}"
            if entry.kind == "folder":
                yield from self.walk(job, place, target / _check_name(entry.name), left_out)
            elif entry.kind == "file":
                yield Wanted(place, target / _check_name(entry.name), entry)
            elif left_out is not None:
                left_out.append(place)

    def save(self, job: str, wanted: Wanted, progress: Progress) -> None:
        """Write the file to its place, once all of it came. What a call before this one had is gone on with.

        Raises:
            Unavailable: what came is not what the list said, because it changed meanwhile; or this machine refused.
            StarForgeError: as any call does.

        """
        try:
            self._save(job, wanted, progress)
        except OSError as error:
            raise Unavailable(
                f"{wanted.target} could not be written",
                why=error.strerror or str(error),
                next_step="make room or mend the folder, then get it again: it goes on where it was",
            ) from error

    def _save(self, job: str, wanted: Wanted, progress: Progress) -> None:
        partial = wanted.target.with_name(wanted.target.name + _PARTIAL)
        kept = wanted.target.with_name(wanted.target.name + _TAG)
        wanted.target.parent.mkdir(parents=True, exist_ok=True)
        tag = Tag(_read(kept) if partial.exists() else None, lambda text: kept.write_text(text, encoding="utf-8"))
        path = f"/jobs/{quote(job, safe='')}/file?{urlencode({'path': wanted.path})}"
        is_begun = tag.value is not None and partial.stat().st_size <= (wanted.entry.bytes or 0)
        with partial.open("r+b" if is_begun else "wb") as file:
            had = file.seek(0, os.SEEK_END)
            progress(had)
            if had != wanted.entry.bytes or tag.value is None:
                self.connection.download(path, file, progress, tag=tag)
            size_bytes = file.seek(0, os.SEEK_END)
        try:
            _check(partial, size_bytes, wanted)
        except Unavailable:
            _forget(partial, kept)
            raise
        partial.replace(wanted.target)
        _forget(kept)


def _check(partial: Path, size_bytes: int, wanted: Wanted) -> None:
    if size_bytes != wanted.entry.bytes:
        raise _changed(wanted.path, f"{size_bytes} bytes came, and {wanted.entry.bytes} were announced")
    if wanted.entry.sha256 is None:
        return
    digest = hashlib.sha256()
    with partial.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            digest.update(piece)
    if digest.hexdigest() != wanted.entry.sha256:
        why = f"what came has the sha256 {digest.hexdigest()}, and the job told {wanted.entry.sha256}"
        raise _changed(wanted.path, why)


def _changed(path: str, why: str) -> Unavailable:
    return Unavailable(f"{path} is not what was listed", why=why, next_step="the job may be writing it: get it again")


def _check_name(name: str) -> str:
    """A name that stays in its folder. Raises InputError: no console names such a file."""
    if name in {"", ".", ".."} or "/" in name or "\0" in name:
        raise InputError(f"the console named a file {name!r}", next_step="report this")
    return name


def _read(path: Path) -> str | None:
    with suppress(FileNotFoundError, UnicodeDecodeError):
        return path.read_text(encoding="utf-8") or None
    return None


def _forget(*paths: Path) -> None:
    for path in paths:
        path.unlink(missing_ok=True)
