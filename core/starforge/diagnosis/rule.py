"""What a rule is: the lines that it knows, what they stand for, and what to do about it."""

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from starforge.diagnosis.answer import Category, Confidence

KERNEL: Final = (
    r"^(?:kern\s{1,4}:\w{1,8}\s{1,4}: \S{10,40} |[A-Z][a-z]{2} {1,2}\d{1,2} [\d:]{8} \S{1,60} kernel: |<\d>)?"
    r"(?:\[ {0,8}\d{1,10}\.\d{1,9}\] )?"
)
"""What may stand before a message in a kernel's log."""
SLURM_ERROR: Final = r"^(?:slurmstepd(?:-[\w.-]{1,80})?: |\[\d{4}-\d\d-\d\dT[\d:.]{8,16}\] )error: "
"""How Slurm's daemon for a step begins an error."""
ANY_ERROR: Final = r"[A-Za-z_]\w*(?:Error|Exception|Exceeded|Full|Missing|Invalid|Failed|Enabled)"


class Weight(IntEnum):
    """How much a line says about the cause; of two lines the one with the smaller weight is believed."""

    PROOF = 0
    """Hardware or kernel say so themselves."""
    CAUSE = 1
    """It names what went wrong."""
    CONDITION = 2
    """It was wrong all along, and explains what failed later."""
    KILL = 3
    """A process was ended from outside, which makes others fail."""
    SYMPTOM = 4
    """It is what a process sees when something else, or another process, failed."""
    LAST = 5
    """It says that something failed, and little more."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A line to look for. `needle` is a text that the line must hold: it is looked for first, and fast.

    `is_error`: the line is an exception as Python prints it last, at the line's beginning. `is_logged`: it only counts
    where a logger called the line an error.
    """

    needle: str
    regex: re.Pattern[str]
    is_error: bool = False
    is_logged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One kind of failure. Summary and advice may name groups of the patterns, which every pattern then has.

    `explains`: a condition only explains a last error that this finds something in. `source` tells where the line was
    seen: the code that prints it, or a report of it. `above`: what one of the few lines above it must hold.
    """

    kind: str
    category: Category
    patterns: tuple[Pattern, ...]
    summary: str
    advice: str
    source: str
    weight: Weight = Weight.CAUSE
    confidence: Confidence = Confidence.SURE
    retryable: bool = False
    explains: re.Pattern[str] | None = None
    above: re.Pattern[str] | None = None


JSON_ERROR: Final = Pattern("JSONDecodeError", re.compile(r"(?:[\w.]+\.)?JSONDecodeError: "), is_error=True)
"""What every reader of JSON raises; only the frames above it tell what was read."""


def error(needle: str, types: str = ANY_ERROR, then: str = "", *, starts: bool = False) -> Pattern:
    """An exception of one of `types` (a regular expression) whose message holds `needle`, followed by `then`.

    `starts`: the message begins with it.
    """
    between = "" if starts else ".{0,1200}?"
    regex = re.compile(rf"(?:[\w.]+\.)?(?:{types})(?:\([\w.]+\))?: {between}{re.escape(needle)}{then}")
    return Pattern(needle, regex, is_error=True)


def raised(types: str, needle: str, then: str = "") -> Pattern:
    """An exception by its type alone, whatever it says; `needle` is a part of the type's name."""
    return Pattern(needle, re.compile(rf"(?:[\w.]+\.)?(?:{types})(?:: |$){then}"), is_error=True)


def printed(needle: str, regex: str) -> Pattern:
    """A line, or the end of one, that `regex` finds; it says itself what must stand before it."""
    return Pattern(needle, re.compile(regex))


def logged(needle: str, regex: str) -> Pattern:
    """`printed`, in a line that a logger called an error."""
    return Pattern(needle, re.compile(regex), is_logged=True)
