"""The one lock under which containers are created on an engine, shared by every process and install on it."""

import errno
import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from starforge.containers.facts import HostFacts
from starforge.errors import BackendUnreachable

_LOOK_AGAIN_S: Final = 0.005
_FOR_EVERYONE: Final = 0o666
_ATTEMPT_LOCKS: Final = 64


class LockUnusable(BackendUnreachable):
    """The machine has no lock to launch under: it needs its administrator."""


def name_lock(folder: Path, facts: HostFacts) -> Path:
    """The lock's file. Engines of one machine may share an ID, so the folder of their data tells them apart."""
    identity = hashlib.sha256(f"{facts.engine_id}{facts.root_dir}".encode()).hexdigest()
    return folder / f"starforge-{identity}.lock"


def name_attempt_lock(folder: Path, attempt: str) -> Path:
    """The file under which one attempt is started or fenced. Attempts share a fixed number of files: none piles up."""
    share = hashlib.sha256(attempt.encode()).digest()[0] % _ATTEMPT_LOCKS
    return folder / f"attempts-{share:02x}.lock"


@contextmanager
def hold_lock(path: Path, timeout_s: float) -> Iterator[None]:
    """Hold the lock; the end of the process gives it back.

    Raises:
        LockUnusable: its file can be neither opened nor made; nobody was waited for.
        BackendUnreachable: another holds it for longer than `timeout_s`.

    """
    descriptor = _open(path)
    try:
        _acquire(descriptor, path, time.monotonic() + timeout_s)
        yield
    finally:
        os.close(descriptor)  # gives the lock back


def find_trouble(path: Path) -> str:
    """Why the lock could not be held by anybody here, or an empty string."""
    try:
        os.close(_open(path))
    except LockUnusable as error:
        return str(error)
    return ""


def _open(path: Path) -> int:
    try:
        try:
            # Some systems forbid O_CREAT on another user's file in a folder that anyone may write.
            return os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FOR_EVERYONE)
            if os.fstat(descriptor).st_uid == os.geteuid():
                os.fchmod(descriptor, _FOR_EVERYONE)
            return descriptor
    except OSError as error:
        lacks = "" if path.parent.is_dir() else f"make the folder {path.parent}, and "
        raise LockUnusable(
            f"the launch lock {path} cannot be opened",
            why=error.strerror or str(error),
            next_step=f"{lacks}let this user read and write there; nothing is launched without it",
        ) from error


def _acquire(descriptor: int, path: Path, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in {errno.EWOULDBLOCK, errno.EACCES}:
                raise
        else:
            return
        if time.monotonic() > deadline:
            raise BackendUnreachable(f"the launch lock {path} is held by another process", next_step="try again")
        time.sleep(_LOOK_AGAIN_S)
