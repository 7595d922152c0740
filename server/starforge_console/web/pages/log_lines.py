"""Raw bytes of a log as lines that are safe on a page: each line's last state, without colours, of bounded length."""

import re
from dataclasses import dataclass
from typing import Final

from starforge.errors import InputError
from starforge.logtext.render import render_bytes

LINE_BYTES: Final = 64 << 10
"""A line that is longer without an end is cut, and what follows of it is passed over."""
SHOWN_CHARACTERS: Final = 4000

_PLACE: Final = re.compile(r"([0-9]{1,16})(s?)")
_ERROR: Final = re.compile(
    r"\b(?:error|exception|traceback|fatal|critical|panic|segmentation fault|killed)\b|\b\w+(?:Error|Exception)\b",
    re.IGNORECASE,
)
_WARNING: Final = re.compile(r"\bwarn(?:ing)?\b|\w+Warning\b", re.IGNORECASE)
_GAP: Final = "[starforge: "


@dataclass(frozen=True, slots=True)
class Place:
    """Where reading goes on. `skipping`: inside a line that was cut, so that the rest of it is passed over."""

    offset: int
    skipping: bool = False

    def __str__(self) -> str:
        return f"{self.offset}{'s' if self.skipping else ''}"


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line as it is shown. `level` is "", `warn`, `err` or `gap`; `was_cut`: it is longer than what is shown."""

    text: str
    level: str = ""
    was_cut: bool = False


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Whole lines, the line that has no end yet, and where reading goes on: before that line."""

    lines: tuple[LogLine, ...]
    tail: LogLine | None
    place: Place


def parse_place(text: str) -> Place:
    """The place that `str(place)` stands for. Raises InputError."""
    found = _PLACE.fullmatch(text)
    if found is None:
        raise InputError(f"{text[:40]!r} is no place in a log", next_step="load the page again")
    return Place(int(found[1]), bool(found[2]))


def split_log(content: bytes, place: Place, *, ended: bool = False) -> LogPiece:
    """The lines of `content`, which begins at `place`. `ended`: nothing follows, so the last line is whole."""
    at = 0
    if place.skipping:
        end = content.find(b"\n")
        if end < 0:
            return LogPiece((), None, Place(place.offset + len(content), not ended))
        at = end + 1
    *whole, rest = content[at:].split(b"\n")
    lines = [build_line(line) for line in whole]
    if rest and (ended or len(rest) > LINE_BYTES):
        lines.append(build_line(rest, was_cut=not ended))
        return LogPiece(tuple(lines), None, Place(place.offset + len(content), not ended))
    tail = build_line(rest) if rest else None
    return LogPiece(tuple(lines), tail, Place(place.offset + len(content) - len(rest)))


def build_line(raw: bytes, *, was_cut: bool = False) -> LogLine:
    """One line: of what carriage returns wrote over one another, the last state."""
    last = next((state for state in reversed(raw.split(b"\r")) if state.strip()), b"")
    text = "".join(span.text for span in render_bytes(last[:LINE_BYTES]))
    was_cut = was_cut or len(text) > SHOWN_CHARACTERS or len(last) > LINE_BYTES
    return LogLine(text[:SHOWN_CHARACTERS], _level_of(text[:SHOWN_CHARACTERS]), was_cut)


def _level_of(text: str) -> str:
    if text.startswith(_GAP):
        return "gap"
    if _ERROR.search(text):
        return "err"
    return "warn" if _WARNING.search(text) else ""
