"""How a reply in words is read: whose fault it tells of, and what to do about it.

The sentences stand in `start_replies` and `pull_replies`. Codes do not tell them apart (a registry's 401 and 503 both
arrive as 500, a missing bash and a missing runc both as 400), so the text decides. Tables are read from the top; the
first that matches counts: what names a cause stands before the envelope that it comes in.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from starforge.wording import cut_middle

_LOOKED_AT: Final = 16_384
"""Some patterns take time that grows with the square of the length."""


class Fault(StrEnum):
    """Whose fault a reply tells of."""

    USER_ERROR = "user_error"
    """The request or its image: it fails in the same way everywhere."""
    USER_ERROR_OR_PLACEMENT = "user_error_or_placement"
    """The image and this kind of machine do not fit: another of either would."""
    NODE_FAULT = "node_fault"
    """This machine, until its administrator mends it."""
    RETRYABLE = "retryable_infrastructure"
    """It may pass by itself."""
    DUPLICATE = "platform_duplicate"
    """An earlier launch of the same attempt was answered into the void."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Reply:
    """What a reply means, and what to do about it."""

    fault: Fault
    meaning: str
    advice: str


@dataclass(frozen=True, slots=True)
class Row:
    """A sentence by its pattern, and what it means."""

    pattern: re.Pattern[str]
    fault: Fault
    meaning: str
    advice: str


def row(pattern: str, fault: Fault, meaning: str, advice: str) -> Row:
    """`{0}`, `{1}`… in `meaning` and `advice` stand for the groups of `pattern`."""
    return Row(re.compile(pattern, re.IGNORECASE), fault, meaning, advice)


def find_reply(rows: Iterable[Row], said: str) -> Reply | None:
    """What the first of `rows` that fits `said` means, or None. Of very long words the beginning and the end count."""
    said = cut_middle(said, _LOOKED_AT)
    for one in rows:
        match = one.pattern.search(said)
        if match is not None:
            return Reply(one.fault, _fill(one.meaning, match), _fill(one.advice, match))
    return None


def _fill(text: str, match: re.Match[str]) -> str:
    for number, group in enumerate(match.groups(default="")):
        text = text.replace(f"{{{number}}}", group.strip().rstrip(":"))
    return re.sub(r" \((?:\{\d+\})?\)", "", text)


DISK: Final = (
    row(
        r"no space left on device|disk quota exceeded",
        Fault.NODE_FAULT,
        "this machine's disk is full",
        "free space or inodes where the engine keeps its data; meanwhile jobs belong elsewhere",
    ),
    row(
        r"read-only file system|input/output error|structure needs cleaning",
        Fault.NODE_FAULT,
        "this machine's disk does not take writes",
        "look at the kernel log of the machine, and mend or replace the disk",
    ),
)
"""What a start and a pull may both meet."""
