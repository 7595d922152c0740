"""The summaries of a curve's chunks in columns: a long curve is drawn from them without an object for each chunk."""

import math
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from starforge_console.domain.points import Point, Summary

_INTEGERS: Final = (
    "numbers",
    "attempts",
    "counts",
    "first_steps",
    "last_steps",
    "low_steps",
    "high_steps",
    "nan_steps",
)
_FLOATS: Final = ("low_values", "low_times", "high_values", "high_times", "nan_times")
ROW: Final = (*_INTEGERS, *_FLOATS)
"""What a row holds, in order."""
_WIDTH_BYTES: Final = 8
ROW_BYTES: Final = _WIDTH_BYTES * (len(_INTEGERS) + len(_FLOATS))


@dataclass(slots=True)
class Rollup:
    """One row a chunk, in order of arrival: its number, its attempt and the summary of its points.

    A low value that is NaN says that all points of the chunk are NaN; a time of NaN in `nan_times` that none is.
    """

    numbers: "array[int]"
    attempts: "array[int]"
    counts: "array[int]"
    first_steps: "array[int]"
    last_steps: "array[int]"
    low_steps: "array[int]"
    high_steps: "array[int]"
    nan_steps: "array[int]"
    low_values: "array[float]"
    low_times: "array[float]"
    high_values: "array[float]"
    high_times: "array[float]"
    nan_times: "array[float]"

    @staticmethod
    def empty() -> "Rollup":
        """No chunk."""
        return _build([array("q") for _ in _INTEGERS], [array("d") for _ in _FLOATS])

    def __len__(self) -> int:
        return len(self.numbers)

    def add(self, number: int, attempt: int, summary: Summary) -> None:
        """Append one chunk."""
        low, high, nan = (one or _NOTHING for one in (summary.low, summary.high, summary.nan))
        integers = (number, attempt, summary.count, summary.first_step, summary.last_step)
        for name, value in zip(_INTEGERS, (*integers, low.step, high.step, nan.step), strict=True):
            getattr(self, name).append(value)
        for name, real in zip(_FLOATS, (low.value, low.time, high.value, high.time, nan.time), strict=True):
            getattr(self, name).append(real)

    def add_rows(self, rows: Iterable[Sequence[Any]]) -> None:
        """Append chunks, each as what `ROW` names; None stands for what a chunk does not have."""
        for name, column in zip(ROW, zip(*rows, strict=True), strict=False):
            nothing = 0 if name in _INTEGERS else math.nan
            getattr(self, name).extend(
                [nothing if one is None else one for one in column] if None in column else column
            )

    def pack(self) -> bytes:
        """The rows as bytes for `add_packed`, ROW_BYTES each."""
        return b"".join(getattr(self, name).tobytes() for name in ROW)

    def add_packed(self, packed: bytes) -> None:
        """Append the rows that `pack` gave."""
        size = len(packed) // ROW_BYTES * _WIDTH_BYTES
        for index, name in enumerate(ROW):
            getattr(self, name).frombytes(packed[index * size : (index + 1) * size])

    def pick(self, rows: Sequence[int]) -> "Rollup":
        """A copy of these rows, in this order."""
        integers = [array("q", [getattr(self, name)[row] for row in rows]) for name in _INTEGERS]
        return _build(integers, [array("d", [getattr(self, name)[row] for row in rows]) for name in _FLOATS])

    def replace(self, row: int, summary: Summary) -> None:
        """Let `summary` stand for the chunk of this row."""
        one = Rollup.empty()
        one.add(self.numbers[row], self.attempts[row], summary)
        for name in ROW:
            getattr(self, name)[row] = getattr(one, name)[0]

    @property
    def has_nan(self) -> bool:
        """Whether any point is NaN."""
        return not all(map(math.isnan, self.nan_times))

    def list_extremes(self, bounds: Sequence[tuple[int, int]], *, has_nan: bool) -> list[tuple[int, float, float]]:
        """(step, value, time) of the extremes of the rows `start` to `end` of each of `bounds`, and of their first NaN.

        `has_nan` False: there is none.
        """
        if has_nan:
            return [point for start, end in bounds for point in self._merge_slowly(range(start, end))]
        lows, highs = self.low_values.tolist(), self.high_values.tolist()
        return [
            *zip_points(self.low_steps, lows, self.low_times, find_places(min, lows, bounds)),
            *zip_points(self.high_steps, highs, self.high_times, find_places(max, highs, bounds)),
        ]

    def _merge_slowly(self, rows: range) -> list[Point]:
        numbers = [row for row in rows if not math.isnan(self.low_values[row])]
        points: list[Point] = []
        if numbers:
            low, high = min(numbers, key=self.low_values.__getitem__), max(numbers, key=self.high_values.__getitem__)
            points.append(Point(self.low_steps[low], self.low_values[low], self.low_times[low]))
            points.append(Point(self.high_steps[high], self.high_values[high], self.high_times[high]))
        nan = next((row for row in rows if not math.isnan(self.nan_times[row])), None)
        return points if nan is None else [*points, Point(self.nan_steps[nan], math.nan, self.nan_times[nan])]


def find_places(
    choose: Callable[[Iterable[float]], float], values: list[float], bounds: Sequence[tuple[int, int]]
) -> list[int]:
    """Where in each part of `values` the first of those stands that `choose`, min or max, takes. No value is NaN."""
    if len(bounds) == len(values):
        return list(range(len(values)))
    parts = ((start, values[start:end]) for start, end in bounds)
    return [start + part.index(choose(part)) for start, part in parts]


def zip_points(
    steps: Sequence[int], values: Sequence[float], times: Sequence[float], places: Sequence[int]
) -> "zip[tuple[int, float, float]]":
    """(step, value, time) at each of the places, put together without a line of Python for each."""
    columns = (map(column.__getitem__, places) for column in (values, times))
    return zip(map(steps.__getitem__, places), *columns, strict=True)


def _build(integers: "Sequence[array[int]]", floats: "Sequence[array[float]]") -> Rollup:
    columns: dict[str, Any] = {**dict(zip(_INTEGERS, integers, strict=True)), **dict(zip(_FLOATS, floats, strict=True))}
    return Rollup(**columns)


_NOTHING: Final = Point(0, math.nan, math.nan)
