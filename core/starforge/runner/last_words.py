"""The line that tells most of a failure at a first look, from the end of what the job wrote. No diagnosis."""

from __future__ import annotations

import re
from typing import Iterator, List, NamedTuple, Optional

TAIL_BYTES = 64 << 10
MOST_CHARACTERS = 200
_TRACEBACK = "Traceback (most recent call last):"
_NEAR_LINES = 20  # a traceback further from the end was one that the job lived on after
# What a launcher raises because a process that it started has failed: that one's own error says why.
_PASSED_ON = ("ChildFailedError", "CalledProcessError")
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[()].|.)")


class _Raised(NamedTuple):
    """The error at the end of a traceback, and how many lines come after it."""

    text: str
    lines_after: int


def find_last_line(tail: bytes) -> Optional[str]:
    """Find the error of the last traceback, else the last line; None where nothing but blanks was written.

    What a terminal would take for an order is left out, and of a progress bar what it showed last is taken.
    """
    shown = [_clean(line) for line in tail.decode("utf-8", "replace").split("\n")]
    lines = [line for line in shown if line.strip()]
    if not lines:
        return None
    line = " ".join((_choose(list(_find_raised(lines))) or lines[-1]).split())
    return line if len(line) <= MOST_CHARACTERS else line[: MOST_CHARACTERS - 1] + "…"


def _choose(raised: List[_Raised]) -> Optional[str]:
    if not raised:
        return None
    causes = [one for one in raised if not _is_passed_on(one.text)]
    if _is_passed_on(raised[-1].text) and causes:
        return causes[-1].text
    return raised[-1].text if raised[-1].lines_after <= _NEAR_LINES else None


def _find_raised(lines: List[str]) -> Iterator[_Raised]:
    """Find where each traceback ends, also behind a prefix that a launcher puts before every line of a process."""
    prefix: Optional[str] = None
    for index, line in enumerate(lines):
        if _TRACEBACK in line:
            prefix = line[: line.index(_TRACEBACK)]
        elif prefix is not None and line.startswith(prefix) and not line[len(prefix) :].startswith((" ", "\t")):
            yield _Raised(line[len(prefix) :], len(lines) - 1 - index)
            prefix = None


def _is_passed_on(text: str) -> bool:
    return text.partition(":")[0].rpartition(".")[2] in _PASSED_ON


def _clean(line: str) -> str:
    last = _ESCAPES.sub("", line).rstrip("\r").rpartition("\r")[2]
    return "".join(character if character.isprintable() or character == "\t" else " " for character in last).rstrip()
