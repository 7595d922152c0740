"""A small disk of a test's own, to be filled."""

import contextlib
import errno
import subprocess
from collections.abc import Iterator
from pathlib import Path

from e2e.support.owned import owned_folder, unmount_below


@contextlib.contextmanager
def small_disk(size_bytes: int) -> Iterator[Path]:
    """A file system of that size, which everybody can reach; a machine that is made later sees it too."""
    with owned_folder() as folder:
        folder.chmod(0o755)
        place = folder / "disk"
        place.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_bytes},mode=0755", "small", place], check=True)
        try:
            yield place
        finally:
            unmount_below(folder)


def take_all_room(place: Path) -> Path:
    """Leave no room on the disk of `place`, down to the last byte; gives the file that takes it."""
    filler = place / "filler"
    with filler.open("ab", buffering=0) as file:
        for piece in (b"x" * (1 << 20), b"x" * (1 << 12), b"x"):
            try:
                while True:
                    file.write(piece)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
    return filler
