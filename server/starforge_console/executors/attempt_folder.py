"""An attempt's own folder on the shared storage: what a script on a cluster and the console decide by together.

It belongs to the job's user, who may lay links in it: no link is ever followed, and nothing that is read is believed
beyond what it says of the job itself. Whoever makes the start mark in it first decides: a script that makes it begins
the attempt, and a fence that makes it sees to it that nothing ever does.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator, Mapping
from typing import Final

from starforge.contract.launch import parse_user
from starforge.errors import BackendUnreachable, NodeFault
from starforge.said.sentence import say

START_MARK: Final = "start"
FENCED: Final = "fenced\n"
"""The text of a start mark that a fence made."""
SHORT_FILE: Final = 200
LOG_TOLD_BYTES: Final = 64 * 1024**2
_PIECE_BYTES: Final = 256 * 1024
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SAME_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class _Replaced(OSError):
    """Where the folder was made there is something else: the job's user has begun, and laid it there."""


class AttemptFolder:
    """The folder `name` in the attempt's directory `workdir`. `secrets` is the file in it that nothing may outlive."""

    def __init__(self, workdir: str, name: str, secrets: str | None = None) -> None:
        self._workdir = workdir
        self._name = name
        self._secrets = secrets

    def prepare(self, user: str | None, files: Mapping[str, str]) -> None:
        """Make it for `user` (uid:gid, None for our own) with `files` in it; a second call writes them anew.

        Raises NodeFault when the storage refuses.
        """
        owner = (os.geteuid(), os.getegid()) if user is None else parse_user(user)
        try:
            with self._open_workdir() as above, contextlib.suppress(FileExistsError):
                os.mkdir(self._name, 0o700, dir_fd=above)
            with self._open() as own:
                _give(own, owner)
                for file, text in files.items():
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(file, dir_fd=own)
                    _write(own, file, text, owner)
        except OSError as error:
            raise NodeFault(
                say("attempt.folder_refused", folder=self._workdir, user=f"{owner[0]}:{owner[1]}"),
                why=str(error.strerror),
                next_step=say("attempt.folder_refused_next"),
            ) from error

    def put(self, file: str, text: str) -> None:
        """Write a short file that the job may read; somebody who reads it in that moment may find it empty.

        Nothing is done where the folder is gone, or something else lies there. Raises BackendUnreachable when the
        storage does not answer.
        """
        try:
            with self._open() as own, os.fdopen(os.open(file, _SAME_FILE, 0o600, dir_fd=own), "w") as there:
                _require_plain(there.fileno())
                os.ftruncate(there.fileno(), 0)
                there.write(text)
                os.fchmod(there.fileno(), 0o644)
        except (FileNotFoundError, _Replaced):
            return
        except OSError as error:
            raise self._unknown(error) from error

    def read_mark(self) -> str | None:
        """The start mark's text, `FENCED` among them, or None as long as nothing made it.

        Text that is not whole was written a moment ago by somebody who began; it is empty where something else lies in
        place of the mark or of the folder, which only somebody who began can have done. Raises BackendUnreachable if
        not known.
        """
        try:
            with self._open() as own:
                return _read(own, START_MARK)
        except FileNotFoundError:
            return None
        except _Replaced:
            return ""
        except OSError as error:
            raise self._unknown(error) from error

    def fence(self) -> bool:
        """Make the start mark before any job can; False when one was made already. It holds over a power cut.

        A directory that is gone can start nothing either. Raises BackendUnreachable when it is not known.
        """
        try:
            with self._open() as own:
                _write(own, START_MARK, FENCED, None)
                self.drop_secrets()
                os.fsync(own)
        except FileExistsError:
            return self.read_mark() == FENCED
        except _Replaced:
            return False
        except FileNotFoundError:
            return True
        except OSError as error:
            raise self._unknown(error) from error
        return True

    def drop_secrets(self) -> None:
        """Remove the secrets, if there are any that no job has read."""
        if self._secrets is not None:
            with contextlib.suppress(OSError), self._open() as own:
                os.unlink(self._secrets, dir_fd=own)

    def read(self, file: str) -> str:
        """What stands in a short file that the job wrote. Raises OSError, FileNotFoundError among them."""
        with self._open() as own:
            return _read(own, file)

    def read_if_there(self, file: str) -> str:
        """The same; empty where it, or the folder, is not there. Raises BackendUnreachable if that is not known."""
        try:
            return self.read(file)
        except (FileNotFoundError, _Replaced):
            return ""
        except OSError as error:
            raise self._unknown(error) from error

    def read_piece(self, file: str, position: int) -> tuple[bytes, int]:
        """A log's next piece from `position` on, and where it ends; empty where there is no more, or no log.

        Only the last `LOG_TOLD_BYTES` are told: whoever may write it can make it longer than anybody can read.
        """
        with contextlib.suppress(OSError), self._open() as own:
            descriptor = os.open(file, _OLD_FILE, dir_fd=own)
            try:
                start = max(position, os.fstat(descriptor).st_size - LOG_TOLD_BYTES)
                piece = os.pread(descriptor, _PIECE_BYTES, start)
            finally:
                os.close(descriptor)
            return piece, start + len(piece)
        return b"", position

    @contextlib.contextmanager
    def _open(self) -> Iterator[int]:
        with self._open_workdir() as above:
            try:
                descriptor = os.open(self._name, _FOLDER, dir_fd=above)
            except OSError as error:
                if error.errno in {errno.ENOTDIR, errno.ELOOP}:
                    raise _Replaced(error.errno, error.strerror) from error
                raise
            try:
                yield descriptor
            finally:
                os.close(descriptor)

    @contextlib.contextmanager
    def _open_workdir(self) -> Iterator[int]:
        descriptor = os.open(self._workdir, _FOLDER)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _unknown(self, error: OSError) -> BackendUnreachable:
        return BackendUnreachable(
            say("attempt.folder_unknown", folder=self._workdir),
            why=str(error.strerror),
            next_step=say("attempt.folder_unknown_next"),
        )


def _require_plain(descriptor: int) -> None:
    """Raises OSError unless it is a file of its own: the job's user may have laid anything in its place."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))


def _give(descriptor: int, owner: tuple[int, int]) -> None:
    status = os.fstat(descriptor)
    if (status.st_uid, status.st_gid) != owner:
        os.fchown(descriptor, *owner)


def _write(folder: int, name: str, text: str, owner: tuple[int, int] | None) -> None:
    """Make the file, which must not be there. Raises FileExistsError."""
    with os.fdopen(os.open(name, _NEW_FILE, 0o600, dir_fd=folder), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        if owner is not None:
            _give(file.fileno(), owner)
        else:
            os.fchmod(file.fileno(), 0o644)
        os.fsync(file.fileno())


def _read(folder: int, name: str) -> str:
    """What stands in the file; nothing where something lies there that is no file. Raises OSError."""
    if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        return ""
    descriptor = os.open(name, _OLD_FILE, dir_fd=folder)
    try:
        return os.pread(descriptor, SHORT_FILE, 0).decode(errors="replace")
    finally:
        os.close(descriptor)
