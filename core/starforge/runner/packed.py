"""Lines of metrics whose numbers are packed, as `report.log` writes them for names that it has written before."""

from __future__ import annotations

import json
from array import array
from binascii import a2b_base64
from typing import Any, Dict, Tuple

from starforge.runner.spool import build_finite

_MOST_NAMES = 200_000  # a job that makes up names without end does not fill the memory
_NUMBER_BYTES = 8


class NameSets:
    """The names that each word stands for, as the lines told them."""

    def __init__(self) -> None:
        self._sets: Dict[str, Tuple[str, ...]] = {}
        self._count = 0

    def learn(self, document: Dict[str, Any]) -> None:
        """Take from a line of values which names its word will stand for."""
        word, names = document.get("keys"), tuple(document["values"])
        if isinstance(word, str) and self._count + len(names) <= _MOST_NAMES:
            self._count += len(names) - len(self._sets.get(word, ()))
            self._sets[word] = names

    def unpack(self, document: Dict[str, Any]) -> bytes:
        """Give a packed line as one of values, without its end. Raises ValueError for what is none."""
        names = self._sets.get(str(document.get("keys")), ())
        numbers = array("d")
        content = a2b_base64(str(document["packed"]))
        if not names or len(content) != len(names) * _NUMBER_BYTES:
            raise ValueError("the names of a packed line are not known")
        numbers.frombytes(content)
        values = dict(zip(names, map(build_finite, numbers)))  # noqa: B905 - Python 3.8; as many as names, see above
        line = {"time": document.get("time"), "step": document["step"], "values": values}
        return json.dumps(line, separators=(",", ":")).encode("ascii")
