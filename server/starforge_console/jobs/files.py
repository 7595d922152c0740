"""A job's files on the storage: listed folder by folder, opened, sent as a tar.

The job wrote them: no link is followed. Everything here waits for the disk.
"""

import contextlib
import os
import re
import stat
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Final, Literal

from starforge.contract.capsule import CKPT_DIRECTORY
from starforge.contract.ids import JobId
from starforge.errors import Conflict, InputError, NotFound
from starforge.wording import is_in_calendar
from starforge_console.assembly.layout import StorageLayout
from starforge_console.domain.masking import MASK
from starforge_console.ingest.spool import StrangeFile, open_file, open_folder
from starforge_console.jobs.shown import ShownPaths

CHECKPOINTS: Final = "checkpoints"
FOLDERS_DEEP: Final = 64
"""A tree that is deeper is not sent as one tar: each level holds a descriptor."""
_OUT: Final = re.compile(r"out(?:-[1-9][0-9]{0,8})?")
_ATTEMPT: Final = re.compile(r"[1-9][0-9]{0,8}")
_PIECE_BYTES: Final = 1 << 20
_BLOCK_BYTES: Final = 512
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

EntryKind = Literal["file", "folder", "link", "other"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a folder."""

    name: str
    kind: EntryKind
    bytes: int | None
    modified_at: float | None


_NOTHING: Final = Entry("", "other", None, None)


@dataclass(frozen=True, slots=True)
class Folder:
    """Some entries of a folder by name. `following`: the name after which there are more, None at the end."""

    entries: tuple[Entry, ...]
    following: str | None
    unlisted: int


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A plain file that is open; whoever has it closes it. `tag` changes with its content.

    `modified_at` None: the job gave it a time that no calendar has.
    """

    name: str
    descriptor: int
    size_bytes: int
    modified_at: float | None
    tag: str

    def read(self, at: int, limit_bytes: int) -> bytes:
        """At most `limit_bytes` from `at` on."""
        return os.pread(self.descriptor, limit_bytes, at)

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self.descriptor)


@dataclass(frozen=True, slots=True)
class JobFiles:
    """The files of the jobs of one storage, under the names that are told of them."""

    storage: StorageLayout
    shown: ShownPaths = field(default_factory=ShownPaths)

    def list_folder(self, job: JobId, path: str, after: str, limit: int) -> Folder:
        """The next `limit` entries of the folder `path` whose names come after `after`.

        Raises:
            InputError: the path leaves the job's folders, or something that is no folder lies there.
            NotFound: there is no such folder.
            Conflict: a name in which something is masked could mean several.
            Unavailable: the storage refused.

        """
        parts = _split(path)
        if not parts or parts == (CHECKPOINTS,):
            return self._list_tops(job, parts, after, limit)
        root, names = self._locate(job, parts)
        with _as_the_job_names_it(job, path), open_folder(root, *names) as descriptor:
            if descriptor is None:
                raise _not_there(job, path)
            found = _list_names(descriptor)
            named = sorted(name for name in found if _is_text(name))
            page = _build_page(descriptor, named, len(found) - len(named), (after, limit))
        told = tuple(replace(one, name=self.shown.name(path, one.name)) for one in page.entries)
        return replace(page, entries=told)

    def open_file(self, job: JobId, path: str) -> OpenFile:
        """The plain file `path`. Raises as `list_folder` does."""
        parts = _split(path)
        root, names = self._locate(job, parts)
        with _as_the_job_names_it(job, path), open_file(root, *names) as file:
            if file is None:
                raise _not_there(job, path)
            found = os.fstat(file.descriptor)
            return OpenFile(
                name=parts[-1],
                descriptor=os.dup(file.descriptor),
                size_bytes=found.st_size,
                modified_at=_find_time(found),
                tag=f'"{found.st_size:x}-{found.st_mtime_ns:x}-{found.st_ino:x}"',
            )

    def open_tree(self, job: JobId, path: str) -> int:
        """A descriptor of the folder `path`, for `iterate_tar`. Raises as `list_folder` does."""
        root, names = self._locate(job, _split(path))
        with _as_the_job_names_it(job, path), open_folder(root, *names) as descriptor:
            if descriptor is None:
                raise _not_there(job, path)
            return os.dup(descriptor)

    def _list_tops(self, job: JobId, parts: tuple[str, ...], after: str, limit: int) -> Folder:
        """The folders that a job's paths begin with, as far as they are there."""
        run = self.storage.run(job)
        with open_folder(run, *parts) as descriptor:
            found = [] if descriptor is None else _list_names(descriptor)
            if parts:
                names = sorted((name for name in found if _ATTEMPT.fullmatch(name)), key=lambda name: (len(name), name))
            else:
                names = sorted(name for name in found if name == CHECKPOINTS or _OUT.fullmatch(name))
            return Folder((), None, 0) if descriptor is None else _build_page(descriptor, names, 0, (after, limit))

    def _locate(self, job: JobId, parts: tuple[str, ...]) -> tuple[Path, tuple[str, ...]]:
        """The folder of the console's own below which the names lie that are opened one after the other."""
        match parts:
            case [first, *_] if _OUT.fullmatch(first):
                root, known, depth = self.storage.run(job), [first], 1
            case [first, number, *_] if first == CHECKPOINTS and _ATTEMPT.fullmatch(number):
                root, known, depth = self.storage.attempt_number(job, int(number)).kept, [CKPT_DIRECTORY], 2
            case _:
                raise NotFound(
                    f"job {job} has no folder {'/'.join(parts)[:200]!r}",
                    next_step="paths begin with 'out' or with 'checkpoints' and the number of an attempt",
                )
        for last in range(depth, len(parts)):
            known.append(self._find_name(root, known, parts[: last + 1]))
        return root, tuple(known)

    def _find_name(self, root: Path, folder: Sequence[str], parts: tuple[str, ...]) -> str:
        """The last of the shown `parts` as it lies in the folder; as it was shown where nothing could be meant."""
        *above, shown = parts
        if MASK not in shown:
            return shown
        with open_folder(root, *folder) as descriptor:
            names = [] if descriptor is None else _list_names(descriptor)
            fits = self.shown.find_names("/".join(above), shown, names) if shown not in names else []
            sizes = self.shown.sizes.get("/".join(parts), ())
            if len(fits) > 1 and descriptor is not None and sizes:
                fits = [one for one in fits if (_find_entry(descriptor, one) or _NOTHING).bytes in sizes]
        if len(fits) > 1:
            raise Conflict(
                f"{'/'.join(parts)[:200]!r} could be any of {len(fits)} files",
                why="their names differ only in what is masked because it is a secret of the job",
                next_step="fetch their folder as an archive: it holds each under its own name",
            )
        return fits[0] if fits else shown


def iterate_tar(descriptor: int, top: str) -> Iterator[bytes]:
    """The tree below an open folder as a tar whose names begin with `top`; of links those that stay inside.

    Raises:
        StrangeFile: it is too deep, a part cannot be read, or a file was cut meanwhile; what came is no whole tar then.

    """
    yield _build_header(tarfile.DIRTYPE, top, os.fstat(descriptor))
    walk = os.fwalk(".", dir_fd=descriptor, follow_symlinks=False, onerror=_refuse_part)
    for folder, folders, files, here in walk:
        folders.sort()
        if folder.count("/") >= FOLDERS_DEEP and folders:
            raise StrangeFile(f"{top} is not sent", why=f"it is more than {FOLDERS_DEEP} folders deep")
        for name in sorted([*folders, *files]):
            path = str(PurePosixPath(folder, name))
            yield from _iterate_entry(here, name, (top, path))
    yield b"\0" * (2 * _BLOCK_BYTES)


def _refuse_part(error: OSError) -> None:
    """By itself a walk passes over a folder that cannot be read; one that has gone meanwhile may be."""
    if not isinstance(error, FileNotFoundError):
        raise StrangeFile(f"the folder {error.filename} is not read", why=error.strerror or str(error)) from error


def _iterate_entry(here: int, name: str, place: tuple[str, str]) -> Iterator[bytes]:
    top, path = place
    with contextlib.suppress(FileNotFoundError):
        found = os.stat(name, dir_fd=here, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode):
            yield _build_header(tarfile.DIRTYPE, f"{top}/{path}", found)
        elif stat.S_ISLNK(found.st_mode):
            target = os.readlink(name, dir_fd=here)
            if _stays_inside(path, target):
                yield _build_header(tarfile.SYMTYPE, f"{top}/{path}", found, target)
        elif stat.S_ISREG(found.st_mode):
            yield from _iterate_file(here, name, f"{top}/{path}")


def _iterate_file(here: int, name: str, path: str) -> Iterator[bytes]:
    try:
        descriptor = os.open(name, _FILE, dir_fd=here)
    except OSError as error:
        raise StrangeFile(f"{path} is not read", why=error.strerror or str(error)) from error
    try:
        found = os.fstat(descriptor)
        yield _build_header(tarfile.REGTYPE, path, found)
        at = 0
        while at < found.st_size:
            piece = os.pread(descriptor, min(_PIECE_BYTES, found.st_size - at), at)
            if not piece:
                raise StrangeFile(f"{path} was cut to {at} bytes while it was sent")
            at += len(piece)
            yield piece
        yield b"\0" * (-at % _BLOCK_BYTES)
    finally:
        os.close(descriptor)


def _build_header(kind: bytes, path: str, found: os.stat_result, target: str = "") -> bytes:
    entry = tarfile.TarInfo(path)
    entry.type, entry.linkname, entry.mtime = kind, target, int(found.st_mtime)
    entry.mode = 0o755 if kind == tarfile.DIRTYPE or found.st_mode & stat.S_IXUSR else 0o644
    entry.size = found.st_size if kind == tarfile.REGTYPE else 0
    return entry.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def _stays_inside(path: str, target: str) -> bool:
    """Whether a link at `path` leads to somewhere below the same top."""
    if target.startswith("/"):
        return False
    at = list(PurePosixPath(path).parent.parts)
    for part in PurePosixPath(target).parts:
        if part != "..":
            at.append(part)
        elif at:
            at.pop()
        else:
            return False
    return True


def _build_page(folder: int, names: list[str], unlisted: int, wanted: tuple[str, int]) -> Folder:
    after, limit = wanted
    start = names.index(after) + 1 if after in names else sum(name <= after for name in names)
    page = names[start : start + limit]
    entries = [entry for entry in (_find_entry(folder, name) for name in page) if entry is not None]
    return Folder(tuple(entries), page[-1] if start + limit < len(names) and page else None, unlisted)


def _list_names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]


def _find_entry(folder: int, name: str) -> Entry | None:
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    kind: EntryKind = "other"
    if stat.S_ISREG(found.st_mode):
        kind = "file"
    elif stat.S_ISDIR(found.st_mode):
        kind = "folder"
    elif stat.S_ISLNK(found.st_mode):
        kind = "link"
    return Entry(name, kind, found.st_size if kind == "file" else None, _find_time(found))


def _find_time(found: os.stat_result) -> float | None:
    """When it was changed; None for a time that no calendar has, which some file systems keep all the same."""
    return found.st_mtime if is_in_calendar(found.st_mtime) else None


def _split(path: str) -> tuple[str, ...]:
    parts = tuple(path.split("/")) if path else ()
    if any(part in {"", ".", ".."} or "\0" in part or not _is_text(part) for part in parts):
        raise InputError(
            f"{path[:200]!r} is no path of a job's files",
            why="it holds an empty part, '.', '..' or a NUL",
            next_step="name it as the lists of files do",
        )
    return parts


def _is_text(name: str) -> bool:
    """Whether the name can be told: bytes that are no UTF-8 come as lone surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in name)


@contextlib.contextmanager
def _as_the_job_names_it(job: JobId, path: str) -> Iterator[None]:
    """What is no plain file is told by the job's own name for it: where the storage lies is nobody's business."""
    try:
        yield
    except StrangeFile as error:
        raise StrangeFile(f"{path[:200]!r} of job {job} is not read", why=error.why) from error


def _not_there(job: JobId, path: str) -> NotFound:
    return NotFound(
        f"job {job} has no {path[:200]!r}",
        why="it was never written, or it has been removed since",
        next_step=f"'sf job artifacts {job}' lists what is there",
    )
