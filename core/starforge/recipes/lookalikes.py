"""Finds full-width and typographic signs where YAML's own would mean something: after a key, before an entry."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_MEANT: Final = {
    "\uff1a": ":", "\uff0c": ",", "\uff0d": "-", "\u201c": '"', "\uff03": "#", "\u3000": "a space", "\uff3b": "[",
    "\uff3d": "]", "\uff5b": "{", "\uff5d": "}", "\u2013": "-",
}  # fmt: skip
_QUOTED: Final = re.compile(r"\"(?:[^\"\\]|\\.)*(?:\"|\\?$)|'[^']*(?:'|$)|(?:^|\s)#.*")
_BLOCK: Final = re.compile(r"[:\uff1a-] {0,8}[|>][-+\d]{0,2}$")
_INDENT: Final = re.compile(r"[ \t\u3000]*")
_AT_MOST: Final = 20
_CHARACTERS: Final = 500
"""Keys, and where values begin, stand at the beginning of a line."""

_BLANKS: Final = r"[ \t\u3000]{0,8}"
_ENTRY: Final = r"(?:[-\uff0d\u2013][ \t\u3000]{1,8})?"
_KEY: Final = r"[A-Za-z_][\w.\-/]{0,120}[ \t]{0,8}"
_VALUE: Final = rf"{_ENTRY}(?:{_KEY}[:\uff1a])?{_BLANKS}"
_PLACES: Final = (
    re.compile(rf"(?P<sign>[\uff0d\u2013]){_BLANKS}[^\s\uff0d\u2013-]"),
    re.compile(rf"{_ENTRY}{_KEY}(?P<sign>\uff1a)"),
    re.compile(rf"{_ENTRY}{_KEY}[:\uff1a](?P<sign>\u3000)"),
    re.compile(rf"{_VALUE}(?P<sign>[\u201c\uff3b\uff5b])"),
    re.compile(rf"{_VALUE}(?:[A-Za-z0-9_.+-]{{1,60}}[ \t]{{1,8}})?(?P<sign>\uff03)"),
    re.compile(rf"{_VALUE}[\[\uff3b{{\uff5b][^\]\uff3d}}\uff5d]{{0,400}}?(?P<sign>\uff0c)"),
    re.compile(rf"{_VALUE}[\[{{][^\]}}]{{0,400}}?(?P<sign>[\uff3d\uff5d])$"),
)
"""Where in a line without its indentation they count."""


class Lookalike(NamedTuple):
    """A sign that is not YAML's own: where it stands, and what was meant."""

    line: int
    column: int
    sign: str
    meant: str


def find_lookalikes(text: str) -> list[Lookalike]:
    """Those that stand where one of YAML's own would, in order, one of each kind a line and a few in all.

    A text in another language holds such signs with right: within values, quotes, comments and blocks there are none.
    """
    found: list[Lookalike] = []
    block: int | None = None
    for number, line in enumerate((line[:_CHARACTERS].rstrip() for line in text.split("\n")), start=1):
        indent = _count_indent(line)
        if block is not None and (indent > block or not line):
            continue
        bare = _QUOTED.sub(lambda quoted: "x" * len(quoted[0]), line)
        block = indent if _BLOCK.search(bare) else None
        columns = sorted(set(_find_columns(bare, indent)))
        found += [Lookalike(number, at + 1, line[at], _MEANT[line[at]]) for at in columns]
        if len(found) >= _AT_MOST:
            break
    return found[:_AT_MOST]


def _count_indent(line: str) -> int:
    found = _INDENT.match(line)
    return found.end() if found else 0


def _find_columns(line: str, indent: int) -> Iterator[int]:
    wide = line.find("\u3000", 0, indent)
    if wide >= 0:
        yield wide
    for place in _PLACES:
        match = place.match(line, indent)
        if match is not None:
            yield match.start("sign")
