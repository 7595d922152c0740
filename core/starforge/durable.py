"""What makes a file's name last: a rename or a new name holds after a power cut only once its folder is synced."""

import contextlib
import os
import secrets
from pathlib import Path


def write_once(path: Path, content: bytes, mode: int) -> None:
    """Make `path` with `content` and `mode`, or leave what another process has made there meanwhile.

    Either way the file is whole, and it is there after a power cut. Raises OSError when the disk refuses.
    """
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), mode)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(fresh)
    finally:
        fresh.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Bring the names in `folder` to the disk. Raises OSError when the disk refuses."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
