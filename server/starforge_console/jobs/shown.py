"""Which file of a job a shown name means: names are told without the job's secrets, and lie on the storage with them.

The secrets themselves are gone once the attempt is cleaned up. What is left to tell files apart are the shown names:
a file that is not told as it is, and could have been told like this, is the one.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from starforge_console.domain.masking import MASK

_ANYTHING: Final = ".+"


@dataclass(frozen=True, slots=True)
class ShownPaths:
    """The paths of a job's files as they are told. Pure.

    `sizes` holds the bytes of the files that are told under a path in which something is masked.
    """

    sizes: Mapping[str, Collection[int]] = field(default_factory=dict)
    _plain: Mapping[str, Collection[str]] = field(default_factory=dict)
    _masked: Mapping[str, Collection[str]] = field(default_factory=dict)

    def name(self, folder: str, name: str) -> str:
        """How the entry `name` of a folder, as that is shown, is told."""
        if name in self._plain.get(folder, ()):
            return name
        masked = self._masked.get(folder, ())
        return name if name in masked else next((one for one in masked if _fits(one, name)), name)

    def find_names(self, folder: str, shown: str, names: Iterable[str]) -> list[str]:
        """Which of a folder's `names` could be told as `shown`."""
        plain = self._plain.get(folder, ())
        return [name for name in names if name not in plain and _fits(shown, name)]


def build_shown(told: Iterable[tuple[str, int | None]]) -> ShownPaths:
    """From paths as they are told, each with its bytes where it is a file's."""
    sizes: dict[str, set[int]] = {}
    plain: dict[str, set[str]] = {}
    masked: dict[str, set[str]] = {}
    for path, size_bytes in told:
        if size_bytes is not None and MASK in path:
            sizes.setdefault(path, set()).add(size_bytes)
        folder = ""
        for part in path.split("/"):
            (masked if MASK in part else plain).setdefault(folder, set()).add(part)
            folder = f"{folder}/{part}" if folder else part
    return ShownPaths(sizes, plain, masked)


def _fits(shown: str, name: str) -> bool:
    pattern = _ANYTHING.join(map(re.escape, shown.split(MASK)))
    return re.fullmatch(pattern, name, re.DOTALL) is not None
