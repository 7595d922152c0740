"""Why an attempt ends before its training process ran: a code, a cause and a sentence for the user."""

from __future__ import annotations

from starforge.contract.capsule import ExitCause


class Refusal(Exception):
    """Ends the attempt at once with `code`; the message says what, why and what to do next."""

    def __init__(self, code: int, cause: ExitCause, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.cause = cause
        self.message = message


class Interrupted(Exception):
    """The attempt is to end before its training process started: a stop, a pause or a TERM came first."""
