"""The clocks of a simulated console."""

from dataclasses import dataclass


@dataclass
class VirtualClock:
    """The console's clocks: the monotonic one goes with the world, the other one can be set."""

    passed: float = 1_800_000_000.0
    offset: float = 0.0

    def now(self) -> float:
        return self.passed + self.offset

    def monotonic(self) -> float:
        return self.passed
