"""Decodes the bytes of one line, whatever encoding the program had that wrote it."""

import itertools
from typing import Final

_KIND, _FOLLOWS = 0xC0, 0x80
"""Of a byte in UTF-8, the bits that tell what it is, and what they are in one that follows another."""
_LENGTHS: Final = ((0xF0, 4), (0xE0, 3), (0xC0, 2))


def decode(raw: bytes, *, cut_begin: bool = False, cut_end: bool = False) -> str:
    """The text of one record: UTF-8, else GB18030 where it is that and not a damaged UTF-8, else with replacements."""
    begin, end = (_find_begin(raw) if cut_begin else 0), (_find_end(raw) if cut_end else len(raw))
    try:
        return raw[begin:end].decode()
    except UnicodeDecodeError:
        text = raw[begin:end].decode(errors="replace")
    bad = text.count("\ufffd")
    good = len(text) - len(text.encode("ascii", "ignore")) - bad
    if bad <= good:
        return text
    for skipped, dropped in itertools.product(range(1 + cut_begin), range(1 + cut_end)):
        try:
            return raw[skipped : len(raw) - dropped].decode("gb18030")
        except UnicodeDecodeError:
            continue
    return text


def _find_begin(raw: bytes) -> int:
    """Behind the rest of a UTF-8 character that was cut in two."""
    return next((at for at in range(min(4, len(raw))) if raw[at] & _KIND != _FOLLOWS), 0)


def _find_end(raw: bytes) -> int:
    """Before the beginning of a UTF-8 character that was cut in two."""
    for back in range(1, min(4, len(raw)) + 1):
        byte = raw[-back]
        if byte & _KIND == _FOLLOWS:
            continue
        length = next((length for first, length in _LENGTHS if byte >= first), 1)
        return len(raw) - back if length > back else len(raw)
    return len(raw)
