"""Curves as a page shows them: which keys stand together, and each figure as it is before any script draws it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from starforge.contract.api import Curve
from starforge.contract.curves import sort_keys
from starforge.errors import NotFound
from starforge_console.web.deps import CurveReader

KEYS_A_FIGURE: Final = 4
FIGURES_AT_FIRST: Final = 2
FIGURES_AT_MOST: Final = 6
POINTS_AT_FIRST: Final = 240
WIDTH: Final = 1000
HEIGHT: Final = 232


@dataclass(frozen=True, slots=True)
class Line:
    """One curve of a figure. `points` are those of an SVG polyline; `odd`: some values are no finite numbers."""

    key: str
    total: int
    first: float | str | None
    last: float | str | None
    last_step: int | None
    points: str
    odd: bool


@dataclass(frozen=True, slots=True)
class Figure:
    """Curves that are drawn over one another."""

    lines: tuple[Line, ...]

    @property
    def keys(self) -> str:
        """The keys, one a line: they hold no line breaks."""
        return "\n".join(line.key for line in self.lines)

    @property
    def is_curve(self) -> bool:
        """Whether there is a line to draw: a value that was reported once is none."""
        return any(line.total > 1 for line in self.lines)


def choose_groups(points: Mapping[str, int], chosen: Sequence[str], primary: str | None = None) -> list[list[str]]:
    """The keys of each figure: those that end alike stand together; all the `chosen` ones, else the most telling.

    `points` tells how many points each key has, and `primary` which of them stands for the job.
    """
    wanted = {key: points[key] for key in chosen if key in points}
    groups: dict[str, list[str]] = {}
    for key in sort_keys(wanted or points, primary):
        groups.setdefault(key.rpartition("/")[2], []).append(key)
    figures = [group[:KEYS_A_FIGURE] for group in groups.values()]
    return figures[: FIGURES_AT_MOST if wanted else FIGURES_AT_FIRST]


async def load_figures(curves: CurveReader, job_id: str, groups: Sequence[Sequence[str]]) -> list[Figure]:
    """The figures with as many points as a first picture needs; a curve that is gone by now is left out."""
    figures = []
    for group in groups:
        found = [curve for key in group if (curve := await _find_curve(curves, job_id, key)) is not None]
        if found:
            figures.append(build_figure(found))
    return figures


def build_figure(curves: Sequence[Curve]) -> Figure:
    """One figure with a common scale."""
    numbers = {curve.key: [_number(value) for value in curve.values] for curve in curves}
    box = _bounds(curves, numbers)
    return Figure(tuple(_line(curve, numbers[curve.key], box) for curve in curves))


@dataclass(frozen=True, slots=True)
class _Box:
    left: float
    right: float
    low: float
    high: float

    def x(self, step: float) -> float:
        return (step - self.left) / ((self.right - self.left) or 1) * WIDTH

    def y(self, value: float) -> float:
        return HEIGHT - 8 - (value - self.low) / ((self.high - self.low) or 1) * (HEIGHT - 16)


def _bounds(curves: Sequence[Curve], numbers: Mapping[str, Sequence[float | None]]) -> _Box:
    steps = [step for curve in curves for step in curve.steps] or [0]
    values = [value for of_key in numbers.values() for value in of_key if value is not None] or [0.0]
    return _Box(min(steps), max(steps), min(values), max(values))


def _line(curve: Curve, numbers: Sequence[float | None], box: _Box) -> Line:
    points = " ".join(
        f"{box.x(step):.1f},{box.y(value):.1f}"
        for step, value in zip(curve.steps, numbers, strict=True)
        if value is not None
    )
    return Line(
        key=curve.key,
        total=curve.total_points,
        first=curve.values[0] if curve.values else None,
        last=curve.values[-1] if curve.values else None,
        last_step=curve.steps[-1] if curve.steps else None,
        points=points,
        odd=None in numbers,
    )


def _number(value: float | str) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None


async def _find_curve(curves: CurveReader, job_id: str, key: str) -> Curve | None:
    try:
        return await curves.curve(job_id, key, POINTS_AT_FIRST)
    except NotFound:
        return None
