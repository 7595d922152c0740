"""What a check of this machine comes to."""

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """The kinds of outcomes."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    NOT_CHECKED = "not checked"


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: its name, how it went, what was seen, and what to do about it."""

    name: str
    state: Outcome
    message: str
    next_step: str = ""


def passed(name: str, message: str) -> Finding:
    """A finding that needs nothing done."""
    return Finding(name, Outcome.OK, message)


def warned(name: str, message: str, next_step: str) -> Finding:
    """A finding that jobs can live with."""
    return Finding(name, Outcome.WARNING, message, next_step)


def failed(name: str, message: str, next_step: str) -> Finding:
    """A finding that keeps jobs from running."""
    return Finding(name, Outcome.FAILED, message, next_step)


def unchecked(name: str, message: str, next_step: str = "") -> Finding:
    """Nobody knows: the check could not be made."""
    return Finding(name, Outcome.NOT_CHECKED, message, next_step)
