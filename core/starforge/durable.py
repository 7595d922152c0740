"""What makes a file's name last: a rename or a new name holds after a power cut only once its folder is synced."""

import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Bring the names in `folder` to the disk. Raises OSError when the disk refuses."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
