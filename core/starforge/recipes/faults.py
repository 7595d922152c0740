"""A fault in a file that a person wrote: what is wrong, where exactly, and what to write instead."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """A position in a file; line and column count from 1, 0 is the file as a whole."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. `code` is stable, `hint` says what to do next."""

    code: str
    message: str
    place: Place
    hint: str = ""

    def to_json(self) -> dict[str, str | int]:
        """The fault as `sf validate --json` prints it."""
        place = self.place
        members = {"code": self.code, "message": self.message, "file": place.file}
        return {**members, "line": place.line, "column": place.column, "hint": self.hint}


def describe_nearest(word: str, known: Iterable[str]) -> str:
    """`did you mean 'x'?` for the nearest of the known names, otherwise the list of them."""
    names = sorted(known)
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"known here: {', '.join(names)}" if names else ""


def count_of(count: int, noun: str) -> str:
    """`1 fault`, `2 faults`: a count with its noun, whose plural takes an s."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def join_sentences(*parts: str) -> str:
    """The parts that say something, one after the other, each but the last with its full stop or question mark."""
    said = [part for part in parts if part]
    ended = [part if part.endswith((".", "?", "!")) else f"{part}." for part in said[:-1]]
    return " ".join([*ended, *said[-1:]])
