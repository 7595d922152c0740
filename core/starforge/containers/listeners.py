"""Which TCP ports of this machine somebody listens on, as the kernel lists them."""

from pathlib import Path
from typing import Final

_LISTS: Final = ("tcp", "tcp6")
_LISTENS: Final = "0A"
_ADDRESS, _STATE = 1, 3


def list_listening_ports(net: Path = Path("/proc/net")) -> frozenset[int]:
    """Every port with a listener, on whatever address; where the kernel has no such list, none are known."""
    return frozenset(port for name in _LISTS for port in _read_list(net / name))


def _read_list(path: Path) -> list[int]:
    try:
        lines = path.read_text("ascii").splitlines()[1:]
    except FileNotFoundError:  # a kernel without IPv6
        return []
    rows = [line.split() for line in lines]
    return [int(row[_ADDRESS].rpartition(":")[2], 16) for row in rows if row[_STATE] == _LISTENS]
