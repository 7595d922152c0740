"""What a line of a log speaks of, an error, a warning or a gap; which rank wrote it; what launchers put before it."""

import re
from collections.abc import Iterator
from typing import Final, Literal

Level = Literal["", "warn", "err", "gap"]

_PREFIX: Final = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\s"  # a time, as engines write it
    r"|\[\d{1,9}\]\s"  # a launcher's number of the line
    r"|\d{1,9} \d{1,3}(?:\.\d{1,3}){3}:\s"  # with the machine's address
    r"|\d{1,5}:\s"  # srun --label
    r"|\[(?:rank|default)\d{1,5}\]:\s?"  # torch, torchrun --tee
    r"|\[\d{1,5},\d{1,5}\]<\w{3,7}>:"  # mpirun --tag-output
    r"|\([\w.:]{1,80} pid=\d{1,9}(?:, ip=[\d.]{7,15})?\)\s"  # ray
)
_PREFIXES_AT_MOST: Final = 6
_RANK: Final = re.compile(r"\[(?:rank|default)(\d{1,5})\]:")
_LABEL: Final = re.compile(r"(\d{1,5}): ")
_LOOKED_AT: Final = 4000
_ERROR: Final = re.compile(
    r"\b(?:error|exception|traceback|fatal|critical|panic|segmentation fault|killed)\b|\b\w+(?:Error|Exception)\b",
    re.IGNORECASE,
)
_SURE: Final = re.compile(
    r"Traceback \(most recent call last\)|(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:Error|Exception)(?::|\s*\Z)"
    r"|\[E\d{3,}\b|(?:CUDA|NCCL|RuntimeError)\b.{0,40}\berror\b|FATAL\b|Fatal Python error|panic:|Killed\s*\Z"
    r"|.{0,80}\bSegmentation fault\b"
)
_WARNING: Final = re.compile(r"\bwarn(?:ing)?\b|\b\w+Warning\b", re.IGNORECASE)
GAP: Final = "[starforge: "
"""How a line begins by which the platform says that something is not there."""


def strip_prefixes(text: str) -> str:
    """The line without what launchers and engines put before it: times, labels, numbers, ranks."""
    at = 0
    for _ in range(_PREFIXES_AT_MOST):
        found = _PREFIX.match(text, at)
        if found is None:
            break
        at = found.end()
    return text[at:]


def find_level(text: str) -> Level:
    """What the line speaks of, as far as one line can tell."""
    text = strip_prefixes(text[:_LOOKED_AT])
    if text.startswith(GAP):
        return "gap"
    if _ERROR.search(text) or _SURE.match(text):
        return "err"
    return "warn" if _WARNING.search(text) else ""


def is_surely_error(text: str) -> bool:
    """Whether the line is where an error begins, and no mere mention of one."""
    return _SURE.match(strip_prefixes(text[:_LOOKED_AT])) is not None


def split_ranks(text: str) -> Iterator[tuple[int | None, str]]:
    """The parts of a line by the rank that wrote them: ranks that share a pipe tear one another's lines apart.

    What stands before the first mark of a rank belongs to the launcher's label of the same rank, else to nobody.
    """
    marks = list(_RANK.finditer(text))
    label = _LABEL.match(text)
    if not marks:
        yield (int(label[1]) if label else None), text
        return
    begin, first = 0, marks[0]
    if not (label or strip_prefixes(text[: first.end()]) == ""):
        before = text[: first.start()]
        if before:
            yield None, before
        begin = first.start()
    for index, mark in enumerate(marks):
        end = marks[index + 1].start() if index + 1 < len(marks) else len(text)
        yield int(mark[1]), text[begin if index == 0 else mark.start() : end]


def take_rank(text: str, rank: int) -> str | None:
    """What `rank` wrote of the line; None when it wrote nothing of it."""
    parts = [part for whose, part in split_ranks(text) if whose == rank]
    return " ".join(parts) if parts else None
