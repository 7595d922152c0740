"""Points of a curve in columns, and the summary of a run of them that a long curve is drawn from."""

import math
from array import array
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(slots=True)
class Columns:
    """Points of one key in columns of equal length: int64 steps, float64 values and times (Unix seconds)."""

    steps: "array[int]"
    values: "array[float]"
    times: "array[float]"

    @classmethod
    def empty(cls) -> "Columns":
        """No points."""
        return cls(array("q"), array("d"), array("d"))

    @classmethod
    def unpack(cls, steps: bytes, values: bytes, times: bytes) -> "Columns":
        """The columns whose `tobytes()` these are."""
        columns = cls.empty()
        columns.steps.frombytes(steps)
        columns.values.frombytes(values)
        columns.times.frombytes(times)
        return columns

    def __len__(self) -> int:
        return len(self.steps)

    def add(self, step: int, value: float, time: float) -> None:
        """Append one point."""
        self.steps.append(step)
        self.values.append(value)
        self.times.append(time)

    def extend(self, other: "Columns") -> None:
        """Append all points of `other`."""
        self.steps.extend(other.steps)
        self.values.extend(other.values)
        self.times.extend(other.times)

    def part(self, start: int, end: int) -> "Columns":
        """A copy of the points `start` to `end`, counted from 0."""
        return Columns(self.steps[start:end], self.values[start:end], self.times[start:end])

    def between(self, first: float, end: float) -> "Columns":
        """A copy of the points from step `first` on whose step is lower than `end`."""
        return self._pick([index for index, own in enumerate(self.steps) if first <= own < end])

    def in_order(self) -> "Columns":
        """The points by step; points of one step stay in the order of arrival."""
        if array("q", sorted(self.steps)) == self.steps:
            return self
        return self._pick(sorted(range(len(self)), key=self.steps.__getitem__))

    def _pick(self, order: list[int]) -> "Columns":
        return Columns(
            array("q", [self.steps[index] for index in order]),
            array("d", [self.values[index] for index in order]),
            array("d", [self.times[index] for index in order]),
        )


class Point(NamedTuple):
    """One point of a curve. A tuple: a curve has thousands, and frozen dataclasses take five times as long to make."""

    step: int
    value: float
    time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A run of points in constant size: `low` and `high` are None where all are NaN, `nan` is the first NaN."""

    count: int
    first_step: int
    last_step: int
    low: Point | None
    high: Point | None
    nan: Point | None

    def points(self) -> list[Point]:
        """What the run is drawn as."""
        return [point for point in dict.fromkeys((self.low, self.high, self.nan)) if point is not None]


def build_summary(columns: Columns) -> Summary:
    """The summary of at least one point; `first_step` and `last_step` are the lowest and the highest step."""
    numbers, nan = _split_nan(columns)
    low = high = None
    if len(numbers):
        low = _point_at(numbers, numbers.values.index(min(numbers.values)))
        high = _point_at(numbers, numbers.values.index(max(numbers.values)))
    return Summary(
        count=len(columns),
        first_step=min(columns.steps),
        last_step=max(columns.steps),
        low=low,
        high=high,
        nan=nan,
    )


def _split_nan(columns: Columns) -> tuple[Columns, Point | None]:
    # A sum costs a tenth of looking at each value, and is NaN whenever one of them is.
    if not math.isnan(sum(columns.values)):
        return columns, None
    numbers, nan = Columns.empty(), None
    for step, value, time in zip(columns.steps, columns.values, columns.times, strict=True):
        if not math.isnan(value):
            numbers.add(step, value, time)
        elif nan is None:
            nan = Point(step, value, time)
    return numbers, nan


def _point_at(columns: Columns, index: int) -> Point:
    return Point(columns.steps[index], columns.values[index], columns.times[index])
