"""A fault in a file that a person wrote: what is wrong, where exactly, and what to write instead."""

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
