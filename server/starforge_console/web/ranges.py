"""Which part of a file a request asks for. Pure."""

import re
from typing import Final

_RANGE: Final = re.compile(r"bytes=([0-9]{0,19})-([0-9]{0,19})")


def parse_range(text: str | None, size_bytes: int) -> tuple[int, int] | None:
    """Which bytes are asked for, (first, one after the last); None for a part that is not there.

    What is no single range of bytes is passed over, as HTTP lets a server do.
    """
    found = None if text is None else _RANGE.fullmatch(text.replace(" ", ""))
    if found is None or not (found[1] or found[2]):
        return 0, size_bytes
    if not found[1]:
        last = min(int(found[2]), size_bytes)
        return (size_bytes - last, size_bytes) if last else None
    start = int(found[1])
    end = min(size_bytes, int(found[2]) + 1) if found[2] else size_bytes
    if found[2] and int(found[2]) < start:
        return 0, size_bytes
    return (start, end) if start < size_bytes else None
