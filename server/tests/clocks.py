"""Clocks of tests."""

from dataclasses import dataclass


@dataclass
class HandClock:
    """A clock that a test moves by hand."""

    at: float = 1_000.0

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at
