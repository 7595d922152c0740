"""Secrets of attempts as files in memory that only the attempt's user can read."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from starforge.containers.records import list_attempts, make_private
from starforge.contract.ids import AttemptId
from starforge.contract.launch import Secret
from starforge.errors import LaunchRefused, NodeFault, ProjectError

_MEMORY_BACKED: Final = frozenset({"tmpfs", "ramfs"})


class SecretFiles:
    """One folder an attempt below `root`, which must lie on tmpfs: nothing of it ever reaches a disk."""

    def __init__(self, root: Path) -> None:
        """Raises ProjectError when `root` cannot be used."""
        self.root = _require_memory(root)

    def folder_of(self, attempt: AttemptId) -> Path:
        """Where the secrets of `attempt` lie."""
        return self.root / attempt

    def write(self, attempt: AttemptId, user: str, secrets: Mapping[str, Secret]) -> Path:
        """Write one file a secret, readable by `user` (`uid:gid`) alone; the same call again changes nothing.

        Raises LaunchRefused for a name that is no file name, NodeFault when the files cannot be written.
        """
        folder = self.folder_of(attempt)
        owner = _parse_user(user)
        for name in secrets:
            if not name or "/" in name or name in {".", ".."}:
                raise LaunchRefused(f"{name!r} cannot name a secret", why="secrets are files named after variables")
        try:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(mode=0o700)
            for name, secret in secrets.items():
                _write_one(folder / name, secret, owner)
            os.chown(folder, *owner)
            folder.chmod(0o500)
        except OSError as error:
            # The error names the path and the reason, never the content.
            raise NodeFault(f"secrets of {attempt} cannot be written", why=f"{folder}: {error.strerror}") from error
        return folder

    def remove(self, attempt: AttemptId) -> None:
        """Remove the secrets of `attempt`, if there are any."""
        shutil.rmtree(self.folder_of(attempt), ignore_errors=True)

    def attempts(self) -> list[AttemptId]:
        """Whose secrets are here."""
        return list(list_attempts(self.root))


def _write_one(path: Path, secret: Secret, owner: tuple[int, int]) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o400)
    with os.fdopen(descriptor, "wb") as file:
        file.write(secret.reveal().encode())
        os.fchown(file.fileno(), *owner)


def _parse_user(user: str) -> tuple[int, int]:
    uid, _, gid = user.partition(":")
    if not uid.isdigit() or not gid.isdigit():
        raise LaunchRefused(f"user {user!r} is not of the form uid:gid")
    return int(uid), int(gid)


def _require_memory(root: Path) -> Path:
    try:
        make_private(root)
        kind = _find_filesystem(root.resolve())
    except OSError as error:
        raise ProjectError(
            f"the secrets folder {root} cannot be used",
            why=str(error),
            next_step="set FORGE_SECRETS_DIR to a folder on tmpfs that this user can write",
        ) from error
    if kind in _MEMORY_BACKED:
        # The job's user passes through on its way to its own folder and can list nothing.
        root.chmod(0o711)
        return root
    raise ProjectError(
        f"the secrets folder {root} lies on {kind or 'an unknown file system'}",
        why="secrets must never reach a disk",
        next_step="set FORGE_SECRETS_DIR to a folder on tmpfs, for instance below /run or /dev/shm",
    )


def _find_filesystem(path: Path) -> str | None:
    """The type of the file system that holds `path`; the last mount over the longest prefix counts."""
    best, kind = -1, None
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        point = Path(before.split()[4].encode().decode("unicode_escape"))
        if path.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), after.split()[0]
    return kind
