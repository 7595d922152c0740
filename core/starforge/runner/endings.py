"""How an attempt ends: by its training process, by a refusal before it ran, or because somebody wished it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from starforge.contract.capsule import ExitCause


@dataclass(frozen=True)
class Ending:
    """How the training process ended, or why there was none."""

    code: int
    signal: Optional[int] = None
    complete: Optional[bool] = None
    reason: Optional[ExitCause] = None
    message: Optional[str] = None
    started_at: Optional[float] = None


class Refusal(Exception):
    """Ends the attempt at once with `code`; the message says what, why and what to do next."""

    def __init__(self, code: int, cause: ExitCause, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.cause = cause
        self.message = message


class Interrupted(Exception):
    """The attempt is to end before its training process started: a stop, a pause or a TERM came first."""
