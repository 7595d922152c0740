"""The console's two clocks: wall time orders events, monotonic time measures durations."""

import time
from typing import Protocol


class Clock(Protocol):
    """Time as the console sees it; tests and simulations bring their own."""

    def now(self) -> float:
        """Unix seconds."""

    def monotonic(self) -> float:
        """Seconds of a clock that never goes back; its zero means nothing."""


class SystemClock:
    """This machine's clocks."""

    def now(self) -> float:
        """Unix seconds."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds since some moment."""
        return time.monotonic()
