"""Reads files of a project, which may be anybody's: a pipe or a device may stand in the place of one."""

from pathlib import Path
from typing import Final

from starforge.runner.plainfiles import load_bytes

_MOST_BYTES: Final = 16 << 20


def load_file(file: Path) -> bytes:
    """The content of a file that people write by hand; links are followed.

    Raises:
        OSError: it cannot be read, is no plain file, or is far larger than any such file.

    """
    return load_bytes(str(file), _MOST_BYTES, follows_link=True)
