"""Whether the console hears this machine; one that it does not hear starts nothing."""

import time
from typing import Final

_BEATS: Final = 3
_LEAST_S: Final = 5.0
"""Short periods are for tests and benches: a slow moment of the machine is no silence."""


class Hearing:
    """Whether the console hears this machine: it starts nothing while it does not.

    A daemon that was frozen, or cut off, may go on with a launch long after the console has given up on the machine and
    placed the job elsewhere. It learns of that from the next answer, and waits for it.
    """

    def __init__(self, period_s: float) -> None:
        """`period_s` is how often it tells; 0 for a legacy node, which tells nothing and so is never waited for."""
        self._tells = period_s > 0
        self._limit_s = _decide_limit(period_s)
        self._heard_at: float | None = None

    def note(self, period_s: float) -> None:
        """It was heard just now."""
        self._limit_s = _decide_limit(period_s)
        self._heard_at = _read_clock()

    def find_hindrance(self) -> str:
        """Why nothing may start at this moment, or an empty string."""
        if not self._tells:
            return ""
        if self._heard_at is None:
            return "the console has not heard this machine yet"
        silent_s = _read_clock() - self._heard_at
        return f"the console has not heard this machine for {silent_s:.0f} s" if silent_s > self._limit_s else ""


def _decide_limit(period_s: float) -> float:
    """As long as the console waits before it takes the machine for away, or shorter."""
    return max(_LEAST_S, _BEATS * period_s)


def _read_clock() -> float:
    """Seconds since the machine's boot, those in which it slept included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
