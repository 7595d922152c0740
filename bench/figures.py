"""What a bench comes to: ratios that decide, absolute figures that orient, and what could not be compared."""

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

Measure = Callable[[], float]
"""Does the thing once and gives what it cost."""


class Figure(Protocol):
    """One line of the bench's output."""

    @property
    def decides(self) -> bool:
        """Whether the figure is held to its target: those are printed first."""

    def render(self) -> str:
        """The line without its first word."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """Ours over something measured beside it, held to `target`; `at_least` turns the comparison round."""

    name: str
    value: float
    target: float
    at_least: bool = False
    detail: str = ""

    decides = True

    def render(self) -> str:
        """`name ratio target ok|short`, then what went into it."""
        holds = self.value >= self.target if self.at_least else self.value <= self.target
        sign = ">=" if self.at_least else "<="
        detail = f"  ({self.detail})" if self.detail else ""
        return f"{self.name} {self.value:.2f} {sign}{self.target:g} {'ok' if holds else 'short'}{detail}"


@dataclass(frozen=True, slots=True)
class Orientation:
    """An absolute figure of this machine at this moment: shown beside what is aimed at, and never decides."""

    name: str
    value: float
    unit: str
    aim: str = ""
    detail: str = ""

    decides = False

    def render(self) -> str:
        """`name value unit orientation`, then what is aimed at."""
        said = ", ".join(part for part in (f"aim {self.aim}" if self.aim else "", self.detail) if part)
        return f"{self.name} {self.value:.4g} {self.unit} orientation" + (f"  ({said})" if said else "")


@dataclass(frozen=True, slots=True)
class Skipped:
    """A comparison that this machine cannot make."""

    name: str
    why: str

    decides = False

    def render(self) -> str:
        """`name skipped: why`."""
        return f"{self.name} skipped: {self.why}"


@dataclass(frozen=True, slots=True)
class Pairs:
    """Costs of ours and of theirs, measured by turns."""

    ours: tuple[float, ...]
    theirs: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """The median over the pairs: what slows the machine down slows both halves of a pair."""
        return statistics.median(a / b for a, b in zip(self.ours, self.theirs, strict=True))

    def describe(self, unit: str = "ms", factor: float = 1000.0) -> str:
        """Both medians."""
        ours, theirs = (statistics.median(costs) * factor for costs in (self.ours, self.theirs))
        return f"{ours:.3g} over {theirs:.3g} {unit}, n={len(self.ours)}"


def compare(ours: Measure, theirs: Measure, rounds: int, limit_s: float = 60.0) -> Pairs:
    """Measure both `rounds` times, the order turned round each time, after one of each that is not counted.

    Stops early once `limit_s` is over and at least one round is done.
    """
    ours(), theirs()
    pairs: list[tuple[float, float]] = []
    deadline = time.monotonic() + limit_s
    for ours_first in _turns(rounds):
        if pairs and time.monotonic() > deadline:
            break
        if ours_first:
            mine = ours()
            pairs.append((mine, theirs()))
        else:
            other = theirs()
            pairs.append((ours(), other))
    return Pairs(tuple(mine for mine, _ in pairs), tuple(other for _, other in pairs))


def timed(work: Callable[[], object]) -> Measure:
    """A measure of how many seconds `work` takes."""

    def measure() -> float:
        began = time.perf_counter()
        work()
        return time.perf_counter() - began

    return measure


def used(work: Callable[[], object]) -> Measure:
    """A measure of how many seconds of processor `work` uses, in all threads of this process."""

    def measure() -> float:
        began = time.process_time()
        work()
        return time.process_time() - began

    return measure


def _turns(rounds: int) -> Iterator[bool]:
    for number in range(rounds):
        yield number % 2 == 0
