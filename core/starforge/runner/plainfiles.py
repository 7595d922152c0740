"""Reads, writes and lists files in directories that belong to the job.

The job's user may put a pipe, a device, a link, a directory or a gigabyte where a file of ours should be. Nothing here
waits for such a thing, follows a link in the last part of a path, or takes more than it was told to.
"""

from __future__ import annotations

import errno
import fnmatch
import itertools
import json
import os
import stat
import time
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Optional, Tuple

_CHUNK_BYTES = 1 << 20
_MOST_DEPTH = 64
_MOST_ENTRIES = 100_000
_MOST_TROUBLES = 3
_NOTHING_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
_SHOWN_CHARACTERS = 200
_MOST_DIGITS = 20  # older Pythons take minutes for a number of a million digits
# O_NONBLOCK also refuses a file under a lease, which would else be waited for.
_SAFELY = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@dataclass(frozen=True)
class Listing:
    """Files below a directory: (relative path, bytes, mtime in ns), sorted.

    `is_whole`: no bound cut it short, and everything could be looked at. `problems` says what could not, by its path
    below the directory: "sub: Permission denied".
    """

    files: Tuple[Tuple[str, int, int], ...]
    is_whole: bool
    problems: Tuple[str, ...] = ()


class Troubles:
    """What could not be looked at below a directory. What is gone by now, or is no directory, is none."""

    def __init__(self, root: str) -> None:
        self.texts: List[str] = []
        self._root = root

    def note(self, path: str, error: OSError) -> None:
        """Keep why, by the path below the directory; the first few are enough to act on."""
        if error.errno in _NOTHING_THERE or len(self.texts) >= _MOST_TROUBLES:
            return
        text = f"{show_path(os.path.relpath(path, self._root))[:_SHOWN_CHARACTERS]}: {error.strerror}"
        if text not in self.texts:
            self.texts.append(text)


def open_plain(path: str, *, follows_link: bool = False) -> int:
    """Open for reading and give the descriptor. Raises OSError, also for what is no plain file."""
    return _expect_plain(os.open(path, os.O_RDONLY | _SAFELY | (0 if follows_link else os.O_NOFOLLOW)), path)


def open_appendable(path: str) -> int:
    """Open for appending and reading, made if need be. Raises OSError, also for what is no plain file."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | _SAFELY
    return _expect_plain(os.open(path, flags, 0o644), path)


def load_bytes(path: str, most_bytes: int, *, follows_link: bool = False) -> bytes:
    """Read a whole file. Raises OSError, also for what is no plain file or larger than `most_bytes`."""
    with open(open_plain(path, follows_link=follows_link), "rb") as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"is larger than the {most_bytes} bytes it may have", path)
    return content


def parse_object(text: bytes) -> Dict[str, Any]:
    """Read one JSON object. Raises ValueError for anything else, however deep or long."""
    try:
        document = json.loads(text, parse_int=_read_int)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(document, dict):
        raise ValueError("it is no JSON object")  # noqa: TRY004 - the document's fault, not the caller's
    return document


def write_whole(path: str, content: bytes) -> None:
    """Write a file by rename, through a name that nobody can foresee; a directory in its place is moved aside.

    Raises OSError. When it returns, the content is on the disk as far as the storage can.
    """
    partial = f"{path}.{os.urandom(8).hex()}.tmp"
    fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        with open(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        _replace(partial, path)
    except OSError:
        os.unlink(partial)
        raise
    _sync_directory(os.path.dirname(path))


def list_files(
    root: str, *, most_files: int = _MOST_ENTRIES, most_entries: int = _MOST_ENTRIES, deadline: Optional[float] = None
) -> Listing:
    """List the plain files and links below a directory, following no link; `deadline` is of the monotonic clock."""
    files: List[Tuple[str, int, int]] = []
    troubles = Troubles(root)
    pending, seen, is_whole = [("", 0)], 0, True
    while pending:
        folder, depth = pending.pop()
        for entry in _scan(os.path.join(root, folder), troubles):
            seen += 1
            if seen > most_entries or len(files) >= most_files or _is_past(deadline):
                return Listing(tuple(sorted(files)), is_whole=False, problems=tuple(troubles.texts))
            name = os.path.join(folder, entry.name)
            found = _find_stat(entry, troubles)
            if found is None:
                continue
            if stat.S_ISDIR(found.st_mode):
                is_whole = is_whole and depth < _MOST_DEPTH
                pending += [(name, depth + 1)] if depth < _MOST_DEPTH else []
            elif stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode):
                files.append((name, found.st_size, found.st_mtime_ns))
    return Listing(tuple(sorted(files)), is_whole and not troubles.texts, tuple(troubles.texts))


def match_paths(root: str, pattern: str, troubles: Optional[Troubles] = None) -> List[str]:
    """List the paths below `root` that match a pattern such as `*/checkpoint-*`, part by part; bounded, sorted."""
    found = [root]
    for part in pattern.split("/"):
        matching = (
            os.path.join(folder, entry.name)
            for folder in found
            for entry in itertools.islice(_scan(folder, troubles or Troubles(root)), _MOST_ENTRIES)
            if fnmatch.fnmatchcase(entry.name, part) and (part.startswith(".") or not entry.name.startswith("."))
        )
        found = list(itertools.islice(matching, _MOST_ENTRIES))
    return sorted(found)


def show_path(path: str) -> str:
    """Give a path as text that every reader takes: bytes that are no UTF-8 come as escapes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _expect_plain(fd: int, path: str) -> int:
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise OSError(errno.EINVAL, "is no plain file", path)


def _read_int(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _replace(partial: str, path: str) -> None:
    try:
        os.replace(partial, path)
    except (IsADirectoryError, FileExistsError):
        os.rename(path, f"{path}.{os.urandom(8).hex()}.aside")
        os.replace(partial, path)


def _sync_directory(path: str) -> None:
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    except OSError:
        return  # some network file systems refuse to sync a directory; the rename stands
    finally:
        os.close(directory)


def _scan(folder: str, troubles: Troubles) -> "Iterator[os.DirEntry[str]]":
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except OSError as error:
        troubles.note(folder, error)


def _is_past(deadline: Optional[float]) -> bool:
    return deadline is not None and time.monotonic() > deadline


def _find_stat(entry: "os.DirEntry[str]", troubles: Troubles) -> Optional[os.stat_result]:
    try:
        return entry.stat(follow_symlinks=False)
    except OSError as error:
        troubles.note(entry.path, error)
        return None
