"""What is mounted where, by the kernel's list of a process's mounts."""

import re
from collections.abc import Iterator
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
    for name, found in _list_lines(_MOUNTS.read_bytes() if mounts is None else mounts):
        place = Path(name)
        if looked_for.is_relative_to(place) and len(place.parts) >= best:
            best, kind = len(place.parts), found
    return kind


def list_mounted(mounts: bytes) -> tuple[str, ...]:
    """Every place where the list has something mounted that can be seen: not what a later mount covers. Pure.

    Places whose names are no UTF-8 are missing.
    """
    seen: dict[str, None] = {}
    for name, _ in _list_lines(mounts):
        covered = [one for one in seen if one == name or one.startswith(f"{name.rstrip('/')}/")]
        for one in covered:
            del seen[one]
        seen[name] = None
    return tuple(filter(_is_text, seen))


def _list_lines(mounts: bytes) -> Iterator[tuple[str, str]]:
    for line in mounts.split(b"\n"):
        fields = line.split(b" ")
        if len(fields) > 2:  # noqa: PLR2004 - device, place, type
            yield _read_name(fields[1]), fields[2].decode("ascii", "replace")


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _read_name(field: bytes) -> str:
    """A path of the list: the kernel writes spaces, tabs, line ends and backslashes as octal numbers."""
    return _OCTAL.sub(lambda found: bytes([int(found[1], 8)]), field).decode("utf-8", "surrogateescape")
