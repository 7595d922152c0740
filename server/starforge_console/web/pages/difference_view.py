"""A kept difference as a page shows it: file by file, each line by what it is."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

LINES_SHOWN: Final = 4000
"""A page with more of them takes seconds to lay out; the whole is a file to download."""
LINES_OPEN: Final = 400
"""So many lines are shown without a click on each file."""

_FILE: Final = "diff --git "
_HUNK: Final = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_NAMED: Final = re.compile(
    r"(?:\+\+\+ b/|rename to |Binary files .* and b/|--- a/|Binary files a/)(.*?)(?: differ| and /dev/null differ)?\t?"
)

Kind = Literal["add", "del", "hunk", "meta", ""]


@dataclass(slots=True)
class DiffFile:
    """The changes of one file."""

    name: str
    lines: list[tuple[Kind, str]] = field(default_factory=list)

    @property
    def added(self) -> int:
        """How many lines came."""
        return sum(kind == "add" for kind, _ in self.lines)

    @property
    def removed(self) -> int:
        """How many lines went."""
        return sum(kind == "del" for kind, _ in self.lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownDifference:
    """What of a difference is shown. `left_out`: how many lines more there are."""

    files: tuple[DiffFile, ...]
    notes: tuple[str, ...]
    left_out: int
    is_cut: bool

    @property
    def is_short(self) -> bool:
        """Whether all files can stand open."""
        return sum(len(file.lines) for file in self.files) <= LINES_OPEN


def build_difference_view(text: str, *, is_cut: bool) -> ShownDifference:
    """The difference by file. Pure; whatever the text is, it is shown."""
    lines = text.removesuffix("\n").split("\n") if text else []
    files: list[DiffFile] = []
    notes: list[str] = []
    for kind, line in _classify(lines[:LINES_SHOWN]):
        if kind == "meta" and line.startswith(_FILE):
            files.append(DiffFile(line.removeprefix(_FILE)))
        if kind == "meta" and (not files or line.startswith("not shown: ")):
            notes.append(line)
            continue
        named = _NAMED.fullmatch(line) if kind == "meta" else None
        if named:
            files[-1].name = named[1]
        files[-1].lines.append((kind, line))
    return ShownDifference(
        files=tuple(files), notes=tuple(notes), left_out=max(len(lines) - LINES_SHOWN, 0), is_cut=is_cut
    )


def _classify(lines: list[str]) -> Iterator[tuple[Kind, str]]:
    """What each line is: inside a hunk a line that looks like a head is none."""
    old = new = 0
    for line in lines:
        hunk = _HUNK.match(line)
        if old <= 0 and new <= 0 and hunk:
            old, new = (int(count) if count is not None else 1 for count in hunk.groups())
            yield "hunk", line
        elif old > 0 or new > 0:
            kind: Kind = "add" if line.startswith("+") else "del" if line.startswith("-") else ""
            old -= kind != "add" and not line.startswith("\\")
            new -= kind != "del" and not line.startswith("\\")
            yield kind, line
        else:
            yield "meta", line
