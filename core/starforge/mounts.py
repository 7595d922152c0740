"""Which kind of file system a path lies on, by the kernel's list of this process's mounts."""

import re
from pathlib import Path
from typing import Final

_MOUNTS: Final = Path("/proc/self/mounts")
_OCTAL: Final = re.compile(rb"\\([0-7]{3})")


def find_file_system(path: Path, mounts: bytes | None = None) -> str | None:
    """The type of the file system that holds `path`, such as `tmpfs`; None when the list names none that does.

    Of several mounts the one with the longest path counts, of those on one path the last. `mounts` is the list as the
    kernel writes it; None reads that of this process. Raises OSError where there is none.
    """
    best, kind = -1, None
    looked_for = path.resolve()
    for line in (_MOUNTS.read_bytes() if mounts is None else mounts).splitlines():
        fields = line.split(b" ")
        if len(fields) <= 2:  # noqa: PLR2004 - device, place, type
            continue
        place = Path(_read_name(fields[1]))
        if looked_for.is_relative_to(place) and len(place.parts) >= best:
            best, kind = len(place.parts), fields[2].decode("ascii", "replace")
    return kind


def _read_name(field: bytes) -> str:
    """A path of the list: the kernel writes spaces, tabs, line ends and backslashes as octal numbers."""
    return _OCTAL.sub(lambda found: bytes([int(found[1], 8)]), field).decode("utf-8", "surrogateescape")
