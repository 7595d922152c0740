"""Curves as a page shows them: which keys stand together, and each figure as it is before any script draws it."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from starforge.contract.capsule import SYSTEM_METRICS
from starforge.contract.curves import is_of_system, sort_keys
from starforge.contract.results import Curve

KEYS_A_FIGURE: Final = 8
FIGURES_AT_FIRST: Final = 2
FIGURES_AT_MOST: Final = 12
POINTS_AT_FIRST: Final = 240
WIDTH: Final = 1000
HEIGHT: Final = 232
TONES: Final = 6
DASHES: Final = ("", "6 3", "2 3", "10 3 2 3", "14 4", "1 5", "10 3 2 3 2 3", "5 2 1 2", "16 3 4 3")


class Stroke(NamedTuple):
    """How one of many curves is told from the others: its tone, 1 to 6, and the dashes of its line."""

    tone: int
    dash: str


@dataclass(frozen=True, slots=True)
class Line:
    """One curve of a figure. `points` are those of an SVG polyline; `odd`: some values are no finite numbers."""

    key: str
    label: str
    stroke: Stroke
    total: int
    first: float | str | None
    last: float | str | None
    last_step: int | None
    low: float | None
    high: float | None
    points: str
    odd: bool


@dataclass(frozen=True, slots=True)
class Figure:
    """Curves that are drawn over one another."""

    lines: tuple[Line, ...]

    @property
    def is_curve(self) -> bool:
        """Whether there is a line to draw: a value that was reported once is none."""
        return any(line.total > 1 for line in self.lines)


class Group(NamedTuple):
    """Keys whose names begin alike, up to the first `/`; `name` is "" for those without one."""

    name: str
    keys: int


def choose_stroke(index: int) -> Stroke:
    """The stroke of the curve number `index` of several: the first 54 differ.

    Lines of one dash pattern differ in two tones at most, which readers who confuse red and green tell apart.
    """
    turn, tone = divmod(index, TONES)
    return Stroke(tone + 1, DASHES[(2 * turn + tone // 2) % len(DASHES)])


def list_groups(points: Mapping[str, int]) -> list[Group]:
    """The groups of the training's keys, by name."""
    counts: dict[str, int] = {}
    for key in points:
        if not is_of_system(key):
            name = group_of(key)
            counts[name] = counts.get(name, 0) + 1
    return [Group(name, counts[name]) for name in sorted(counts)]


def group_of(key: str) -> str:
    """The group of a key."""
    name, slash, _ = key.partition("/")
    return name if slash else ""


def choose_groups(points: Mapping[str, int], chosen: Sequence[str], primary: str | None = None) -> list[list[str]]:
    """The keys of each figure: those that end alike stand together; all the `chosen` ones, else the most telling.

    `points` tells how many points each key has, and `primary` which of them stands for the job.
    """
    wanted = {key: points[key] for key in chosen if key in points}
    training = {key: count for key, count in points.items() if not is_of_system(key)}
    groups: dict[str, list[str]] = {}
    for key in sort_keys(wanted or training, primary):
        groups.setdefault(key.rpartition("/")[2], []).append(key)
    figures = [group[:KEYS_A_FIGURE] for group in groups.values()]
    return figures[: FIGURES_AT_MOST if wanted else FIGURES_AT_FIRST]


def choose_system(points: Mapping[str, int]) -> list[list[str]]:
    """The keys of each figure of how busy the machine was: the same of all GPUs together, GPUs first."""
    groups: dict[tuple[bool, str], list[str]] = {}
    for key in sorted(key for key in points if is_of_system(key)):
        device, _, name = key.removeprefix(SYSTEM_METRICS).rpartition("/")
        groups.setdefault((not device, name), []).append(key)
    groups = {name: groups[name] for name in sorted(groups)}
    return [group[:KEYS_A_FIGURE] for group in groups.values()][:FIGURES_AT_MOST]


def build_figures(groups: Sequence[Sequence[str]], curves: Mapping[str, Curve]) -> list[Figure]:
    """The figures of those curves that are there."""
    found = [[curves[key] for key in group if key in curves] for group in groups]
    return [build_figure(group) for group in found if group]


def build_figure(curves: Sequence[Curve], labels: Sequence[str] = (), strokes: Sequence[int] = ()) -> Figure:
    """One figure with a common scale; a curve is called by its key or its label, and drawn by its place or stroke."""
    numbers = [[_number(value) for value in curve.values] for curve in curves]
    box = _bounds(curves, numbers)
    names = labels or [curve.key.removeprefix(SYSTEM_METRICS) for curve in curves]
    places = strokes or range(len(curves))
    rows = zip(curves, names, places, numbers, strict=True)
    return Figure(tuple(_line(curve, (name, choose_stroke(at)), values, box) for curve, name, at, values in rows))


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


def _bounds(curves: Sequence[Curve], numbers: Iterable[Sequence[float | None]]) -> _Box:
    steps = [step for curve in curves for step in curve.steps] or [0]
    values = [value for of_key in numbers for value in of_key if value is not None] or [0.0]
    return _Box(min(steps), max(steps), min(values), max(values))


def _line(curve: Curve, look: tuple[str, Stroke], numbers: Sequence[float | None], box: _Box) -> Line:
    points = " ".join(
        f"{box.x(step):.1f},{box.y(value):.1f}"
        for step, value in zip(curve.steps, numbers, strict=True)
        if value is not None
    )
    finite = [value for value in numbers if value is not None]
    return Line(
        key=curve.key,
        label=look[0],
        stroke=look[1],
        total=curve.total_points,
        first=curve.values[0] if curve.values else None,
        last=curve.values[-1] if curve.values else None,
        last_step=curve.steps[-1] if curve.steps else None,
        low=min(finite, default=None),
        high=max(finite, default=None),
        points=points,
        odd=None in numbers,
    )


def _number(value: float | str) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None
