"""Reads what an attempt left on the storage. The job could write there too: nothing is followed out of the folder."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starforge.errors import InputError, Unavailable

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A pipe that nobody writes to would otherwise hold the open up for ever.
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_ABSENT: Final = {errno.ENOENT}
_STRANGE: Final = {errno.ELOOP, errno.ENOTDIR, errno.ENXIO}
# The job owns these folders: one that it closed to everybody must not hold up the end of its attempt for ever.
_CLOSED: Final = {errno.EACCES, errno.EPERM}
_SCAN_BYTES: Final = 1 << 20
_HOLE_BYTES: Final = 16 << 20
_NO_FILE: Final = "a link, a pipe or something else lies where a plain file or folder belongs"


class StrangeFile(InputError):
    """What lies in a file's place is no plain file of this folder, or closed to the console: it is not read."""

    code = "strange_file"


@contextmanager
def open_folder(root: Path, *names: str) -> Iterator[int | None]:
    """A descriptor of the folder `names` below `root`, None when there is none.

    Raises:
        StrangeFile: a name on the way is a link, no folder, or closed to the console.
        Unavailable: the storage refused.

    """
    descriptor = _open(root, names, _DIRECTORY)
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)


@dataclass(frozen=True, slots=True)
class SpoolFile:
    """An open plain file."""

    path: Path
    descriptor: int

    def size_bytes(self) -> int:
        """How long it is now."""
        return os.fstat(self.descriptor).st_size

    def read(self, at: int, limit_bytes: int) -> bytes:
        """At most `limit_bytes` from `at` on. Raises Unavailable."""
        try:
            return os.pread(self.descriptor, limit_bytes, at)
        except OSError as error:
            raise _refused(self.path, error) from error

    def read_written(self, at: int, end: int) -> bytes:
        """What was written from `at` on, before `end`. Raises Unavailable."""
        return self.read(at, self.written_to(at, end) - at)

    def written_to(self, at: int, end: int) -> int:
        """How far the file was written from `at` on, at most to `end`; `at` itself when nothing was.

        A file can be made long without being written: such a hole ends it, where the next block begins. A short one may
        be a file system's way to keep zeros, and counts as written. Where holes are not known, everything was written.
        """
        to, stop = at, min(end, self.size_bytes())
        while to < stop:
            data = self._seek(to, os.SEEK_DATA)
            if data - to > _HOLE_BYTES:
                return to
            to = max(data, self._seek(data, os.SEEK_HOLE))
        return max(at, min(to, stop))

    def find_line_end(self, at: int, end: int) -> tuple[int, bool]:
        """The offset after the first end of line from `at` on; without one, where what was written ends, and False."""
        while chunk := self.read_written(at, min(at + _SCAN_BYTES, end)):
            index = chunk.find(b"\n")
            if index >= 0:
                return at + index + 1, True
            at += len(chunk)
        return at, False

    def _seek(self, at: int, whence: int) -> int:
        """The next data or hole from `at` on; the file's end when there is none."""
        try:
            return os.lseek(self.descriptor, at, whence)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return self.size_bytes()
            raise _refused(self.path, error) from error


@contextmanager
def open_file(root: Path, *names: str) -> Iterator[SpoolFile | None]:
    """The plain file `names` below `root`, None when there is none; raises as `open_folder` does."""
    path = root.joinpath(*names)
    descriptor = _open(root, names, _FILE)
    if descriptor is None:
        yield None
        return
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise StrangeFile(f"{path} is not read", why=_NO_FILE)
        yield SpoolFile(path, descriptor)
    finally:
        os.close(descriptor)


def _open(root: Path, names: tuple[str, ...], flags: int) -> int | None:
    """Open one name after the other, none of them through a link."""
    path, folder = root, None
    try:
        descriptor = os.open(root, _DIRECTORY)
        for index, name in enumerate(names):
            path, folder = path / name, descriptor
            descriptor = os.open(name, flags if index == len(names) - 1 else _DIRECTORY, dir_fd=folder)
            os.close(folder)
            folder = None
    except OSError as error:
        if folder is not None:
            os.close(folder)
        if error.errno in _ABSENT:
            return None
        if error.errno in _STRANGE:
            raise StrangeFile(f"{path} is not read", why=_NO_FILE) from error
        if error.errno in _CLOSED:
            raise StrangeFile(f"{path} is not read", why=str(error.strerror)) from error
        raise _refused(path, error) from error
    return descriptor


def _refused(path: Path, error: OSError) -> Unavailable:
    return Unavailable(
        f"{path} cannot be read",
        why=error.strerror or str(error),
        next_step="look at the storage that FORGE_STORAGE_ROOT names",
    )
