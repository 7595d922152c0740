"""The attempt's own folder on the shared storage: what script and console decide by together.

It belongs to the job's user, who may lay links in it: no link is ever followed, and nothing that is read is believed
beyond what it says of the job itself.
"""

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from starforge.contract.launch import parse_user
from starforge.durable import sync_folder
from starforge.errors import BackendUnreachable, NodeFault
from starforge_console.executors.slurm.script import FAILED_FILE, OWN_FOLDER, SECRETS_FILE, START_MARK, write_secrets
from starforge_console.executors.slurm.states import StartMark

FENCED: Final = StartMark(job_id=-1, restarts=0)
"""What stands for a mark that a fence made."""
_FENCE_TEXT: Final = "fenced\n"
_MARK: Final = re.compile(r"job (\d{1,10}) (\d{1,5})\n")
_LONGEST_MARK: Final = 200
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class AttemptFolder:
    """`workdir` is the attempt's directory."""

    def __init__(self, workdir: str) -> None:
        self._workdir = workdir

    def prepare(self, user: str | None, secrets: Mapping[str, str]) -> None:
        """Make it for `user` (uid:gid, None for our own) with the secrets in it; a second call writes them anew.

        Raises NodeFault when the storage refuses.
        """
        owner = (os.geteuid(), os.getegid()) if user is None else parse_user(user)
        try:
            with self._open_workdir() as above, contextlib.suppress(FileExistsError):
                os.mkdir(OWN_FOLDER, 0o700, dir_fd=above)
            with self._open() as own:
                _give(own, owner)
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(SECRETS_FILE, dir_fd=own)
                _write(own, SECRETS_FILE, write_secrets(secrets), owner)
        except OSError as error:
            raise NodeFault(
                f"{self._workdir} cannot be made ready for user {owner[0]}:{owner[1]}",
                why=str(error.strerror),
                next_step="let the console write there, and give files to the users of its jobs",
            ) from error

    def find_mark(self) -> StartMark | None:
        """What began the attempt, `FENCED`, or None as long as nothing did. Raises BackendUnreachable if not known."""
        try:
            with self._open() as own:
                text = _read(own, START_MARK)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unknown(error) from error
        if text == _FENCE_TEXT:
            return FENCED
        match = _MARK.fullmatch(text)
        # A mark that is not whole was made a moment ago by somebody: whoever that is began the attempt.
        return StartMark(int(match[1]), int(match[2])) if match else StartMark(0, 0)

    def tells_of_memory(self) -> bool:
        """Whether the node that failed first had a process killed for memory; False where nothing tells."""
        try:
            with self._open() as own:
                return _read(own, FAILED_FILE).split()[2:] == ["oom"]
        except OSError:
            return False

    def fence(self) -> bool:
        """Make the start mark before any job can; False when one was made already. It holds over a power cut.

        A directory that is gone can start nothing either. Raises BackendUnreachable when it is not known.
        """
        try:
            with self._open() as own:
                _write(own, START_MARK, _FENCE_TEXT, None)
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(SECRETS_FILE, dir_fd=own)
            sync_folder(Path(self._workdir, OWN_FOLDER))
        except FileExistsError:
            return self.find_mark() is FENCED
        except FileNotFoundError:
            return True
        except OSError as error:
            raise self._unknown(error) from error
        return True

    def drop_secrets(self) -> None:
        """Remove the secrets, if no job has read them."""
        with contextlib.suppress(OSError), self._open() as own:
            os.unlink(SECRETS_FILE, dir_fd=own)

    @contextlib.contextmanager
    def open_file(self, name: str) -> Iterator[int]:
        """A file of the folder for reading. Raises OSError."""
        with self._open() as own:
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=own)
            try:
                yield descriptor
            finally:
                os.close(descriptor)

    @contextlib.contextmanager
    def _open(self) -> Iterator[int]:
        with self._open_workdir() as above:
            descriptor = os.open(OWN_FOLDER, _FOLDER, dir_fd=above)
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
            f"{self._workdir} cannot be looked at", why=str(error.strerror), next_step="look at the shared storage"
        )


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
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    with os.fdopen(descriptor, "rb") as file:
        return file.read(_LONGEST_MARK).decode(errors="replace")
