"""Folders that tests own host-wide: each is removed by its owner, or by whoever comes after an owner that died.

A folder outside of a test's own tmp_path (a short path for sockets, memory for secrets) outlives a test that is killed.
Its owner holds a lock on it, which the kernel gives back, so that nobody mistakes a living owner for a dead one.
"""

import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from starforge.containers.lock import hold_lock

PREFIX: Final = "sfo-"
MEMORY: Final = Path("/dev/shm")  # noqa: S108 - names in it are made by mkdtemp
_LOCK_TIMEOUT_S: Final = 300.0
"""Whoever holds the lock may be removing the files of an engine."""
_FOR_EVERYONE: Final = 0o1777


def find_host_locks() -> Path:
    """Where what is one for the whole host is locked; the same for every process, whatever its TMPDIR is."""
    place = "/run/lock" if os.access("/run/lock", os.W_OK) else "/tmp"  # noqa: S108 - the same for every process
    folder = Path(place, "starforge-test-engines")
    folder.mkdir(exist_ok=True)
    if folder.stat().st_uid == os.geteuid():
        folder.chmod(_FOR_EVERYONE)
    return folder


class OwnedFolder:
    """A new folder below `parent` until it is closed; what dead owners left there is removed first."""

    def __init__(self, parent: Path) -> None:
        with hold_lock(find_host_locks() / "folders.lock", _LOCK_TIMEOUT_S):
            remove_abandoned(parent)
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
            self._claim: int | None = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(self._claim, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def close(self) -> None:
        """Remove it; a second call does nothing."""
        if self._claim is None:
            return
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._claim)
        self._claim = None


@contextlib.contextmanager
def owned_folder(parent: Path | None = None) -> Iterator[Path]:
    """A folder below `parent`, or where temporary files go, for as long as the block lasts."""
    folder = OwnedFolder(parent or Path(tempfile.gettempdir()))
    try:
        yield folder.path
    finally:
        folder.close()


def remove_abandoned(parent: Path) -> None:
    """Remove every owned folder below `parent` whose owner is dead; under the lock of `OwnedFolder` only."""
    for folder in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # another user's, or removed meanwhile by its owner
            _remove_if_abandoned(folder)


def unmount_below(folder: Path) -> None:
    """Unmount everything below `folder`, also what somebody still uses."""
    places = [Path(line.split()[4]) for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for place in places:
        if place.is_relative_to(folder):
            subprocess.run(["umount", "--lazy", place], check=False, capture_output=True)


def _remove_if_abandoned(folder: Path) -> None:
    claim = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
        unmount_below(folder)
        shutil.rmtree(folder)
    finally:
        os.close(claim)
