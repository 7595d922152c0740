"""Secrets of attempts as files in memory that only the attempt's user can read."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from starforge.containers.records import list_attempts, make_private
from starforge.contract.ids import AttemptId
from starforge.contract.launch import Secret, parse_user
from starforge.errors import LaunchRefused, NodeFault, ProjectError
from starforge.mounts import find_file_system

_MEMORY_BACKED: Final = frozenset({"tmpfs", "ramfs"})


_SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - a tmpfs that any user may write on every Linux
_WHY: Final = "secrets must never reach a disk"


class SecretFiles:
    """One folder an attempt below `root`, which must lie on tmpfs: nothing of it ever reaches a disk."""

    def __init__(self, root: Path) -> None:
        """Raises ProjectError when `root` cannot be used."""
        check_secrets_root(root)
        self.root = _make_root(root)

    def folder_of(self, attempt: AttemptId) -> Path:
        """Where the secrets of `attempt` lie."""
        return self.root / attempt

    def write(self, attempt: AttemptId, user: str, secrets: Mapping[str, Secret]) -> Path:
        """Write one file a secret, readable by `user` (`uid:gid`) alone; the same call again changes nothing.

        Raises LaunchRefused for a name that is no file name, NodeFault when the files cannot be written.
        """
        folder = self.folder_of(attempt)
        owner = parse_user(user)
        for name in secrets:
            if not name or "/" in name or name in {".", ".."}:
                raise LaunchRefused(
                    f"{name!r} cannot name a secret",
                    why="secrets are files named after variables",
                    next_step="give it a name such as HF_TOKEN",
                )
        try:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(mode=0o700)
            for name, secret in secrets.items():
                _write_one(folder / name, secret, owner)
            os.chown(folder, *owner)
            folder.chmod(0o500)
        except OSError as error:
            # The error names the path and the reason, never the content.
            raise NodeFault(
                f"secrets of {attempt} cannot be written",
                why=f"{folder}: {error.strerror}",
                next_step="make room on that file system, or let this process write there",
            ) from error
        return folder

    def remove(self, attempt: AttemptId) -> None:
        """Remove the secrets of `attempt`, if there are any."""
        shutil.rmtree(self.folder_of(attempt), ignore_errors=True)

    def attempts(self) -> list[AttemptId]:
        """Whose secrets are here."""
        return list(list_attempts(self.root))


def check_secrets_root(root: Path) -> None:
    """Raises ProjectError unless `root` is, or can be made, a folder of this user's on tmpfs. Makes nothing."""
    kind = find_file_system(root)
    if kind not in _MEMORY_BACKED:
        raise _refuse(root, f"lies on {kind or 'an unknown file system'}", _WHY)
    if root.exists() and root.stat().st_uid != os.geteuid():
        raise _refuse(root, "is another user's", f"it belongs to user {root.stat().st_uid}")
    if not _can_be_written(root):
        raise _refuse(root, "cannot be used", f"user {os.geteuid()} may not write there")


def _write_one(path: Path, secret: Secret, owner: tuple[int, int]) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o400)
    with os.fdopen(descriptor, "wb") as file:
        file.write(secret.reveal().encode())
        os.fchown(file.fileno(), *owner)


def _make_root(root: Path) -> Path:
    try:
        make_private(root)
        # The job's user passes through on its way to its own folder and can list nothing.
        root.chmod(0o711)
    except OSError as error:
        raise _refuse(root, "cannot be used", str(error)) from error
    return root


def _refuse(root: Path, fault: str, why: str) -> ProjectError:
    return ProjectError(f"the secrets folder {root} {fault}", why=why, next_step=_suggest())


def _suggest() -> str:
    own = _SHARED_MEMORY / ("starforge" if os.geteuid() == 0 else f"starforge-{os.geteuid()}")
    if find_file_system(own) in _MEMORY_BACKED and _can_be_written(own):
        return f"set FORGE_SECRETS_DIR={own}"
    return "set FORGE_SECRETS_DIR to a folder on tmpfs that this user can write"


def _can_be_written(folder: Path) -> bool:
    """Whether this user may write `folder`, or may make it where it is missing."""
    nearest = next(place for place in (folder, *folder.parents) if place.exists())
    return nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)
