"""Drawing a curve in as many points as are asked for, from its chunks or from their summaries.

Minima, maxima, NaN and both ends are kept. It goes in two steps, so that the chunks of many curves can be read at once:
`plan_curve` says which chunks' points are needed, and `draw_curve` draws from them.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

from starforge_console.domain.points import Columns, build_summary
from starforge_console.domain.rollup import Rollup, find_places, zip_points

_CHUNKS_SHARE: Final = 4
"""With a chunk for every fourth point that is asked for, the chunks' summaries are the curve: nothing else is read."""

Loaded = Mapping[int, Columns]
Drawable = tuple[int, float, float]
"""Step, value and time of a point."""


@dataclass(frozen=True, slots=True)
class Window:
    """The steps that are asked for, both ends among them."""

    first: float = -math.inf
    last: float = math.inf


EVERYTHING: Final = Window()


@dataclass(frozen=True, slots=True)
class Look:
    """What of a curve is asked for: in how many points, of which attempt alone, and which steps."""

    points: int
    attempt: int | None = None
    window: Window = EVERYTHING


@dataclass(frozen=True, slots=True)
class Plan:
    """How a curve is drawn, for which the points of the chunks `numbers` are needed.

    `ends` has for each attempt the step from which on its points do not count, `halves` the rows of `chunks` of which
    only a part counts.
    """

    chunks: Rollup
    window: Window
    ends: Mapping[int, float]
    halves: Sequence[int]
    wanted: int
    numbers: Sequence[int]

    @property
    def from_points(self) -> bool:
        """Whether all points are read, and not only summaries."""
        return len(self.chunks) * _CHUNKS_SHARE < self.wanted


@dataclass(frozen=True, slots=True)
class Drawn:
    """A curve's points by step, and how many they stand for."""

    steps: Sequence[int]
    values: Sequence[float]
    times: Sequence[float]
    total: int


def plan_curve(chunks: Rollup, wanted: int, window: Window = EVERYTHING) -> Plan | None:
    """What is to be read to draw the curve of these chunks in `wanted` points; None when there are no chunks."""
    if not chunks:
        return None
    ends = {attempt: min(cut, window.last + 1) for attempt, cut in _find_cuts(chunks).items()}
    is_cut = len(ends) > 1 or window != EVERYTHING
    if is_cut:
        steps = zip(chunks.first_steps, chunks.last_steps, chunks.attempts, strict=True)
        chunks = chunks.pick(
            [row for row, (low, high, one) in enumerate(steps) if low < ends[one] and high >= window.first]
        )
    if len(chunks) * _CHUNKS_SHARE < wanted:
        return Plan(chunks, window, ends, (), wanted, chunks.numbers)
    chunks = _sort(chunks)
    halves: list[int] = []
    if is_cut:
        steps = zip(chunks.first_steps, chunks.last_steps, chunks.attempts, strict=True)
        halves = [row for row, (low, high, one) in enumerate(steps) if high >= ends[one] or low < window.first]
    whole = sorted(set(range(len(chunks))).difference(halves)) if halves else range(len(chunks))
    rows = {*halves}
    if whole:
        rows |= {whole[0], max(whole, key=chunks.last_steps.__getitem__)}
    return Plan(chunks, window, ends, halves, wanted, sorted(chunks.numbers[row] for row in rows))


def draw_curve(plan: Plan, loaded: Loaded) -> Drawn:
    """The curve. `loaded` has the points of all chunks that the plan needs."""
    return _draw_points(plan, loaded) if plan.from_points else _draw_summaries(plan, loaded)


def _find_cuts(chunks: Rollup) -> dict[int, float]:
    """For each attempt the step from which on a newer attempt's points count."""
    newest = max(chunks.attempts)
    if min(chunks.attempts) == newest:
        return {newest: math.inf}
    first: dict[int, int] = {}
    for attempt, step in zip(chunks.attempts, chunks.first_steps, strict=True):
        first[attempt] = min(step, first.get(attempt, step))
    cuts: dict[int, float] = {}
    cut = math.inf
    for attempt in sorted(first, reverse=True):
        cuts[attempt] = cut
        cut = min(cut, first[attempt])
    return cuts


def _draw_points(plan: Plan, loaded: Loaded) -> Drawn:
    columns = Columns.empty()
    for row, number in enumerate(plan.chunks.numbers):
        columns.extend(_cut(plan, row, loaded[number]))
    total = len(columns)
    if total <= plan.wanted:
        columns = columns.in_order()
        return Drawn(columns.steps, columns.values, columns.times, total)
    # Points are in order of arrival, nearly that of steps: bringing them in order would cost more than drawing them.
    has_nan = plan.chunks.has_nan
    bounds = _split(total, _count_runs(plan.wanted, has_nan=has_nan))
    ends = _find_ends(_pick_ends(plan, loaded) or columns)
    if has_nan:
        summaries = (build_summary(columns.part(start, end)).points() for start, end in bounds)
        return _draw(itertools.chain.from_iterable(summaries), ends, total, has_nan=True)
    values = columns.values.tolist()
    places = (*find_places(min, values, bounds), *find_places(max, values, bounds))
    return _draw(zip_points(columns.steps, values, columns.times, places), ends, total, has_nan=False)


def _pick_ends(plan: Plan, loaded: Loaded) -> Columns | None:
    """The points of the chunks in which a curve that counts as a whole begins and ends; None of one that does not."""
    chunks = plan.chunks
    if len(plan.ends) > 1 or plan.window != EVERYTHING:
        return None
    behind = chunks.last_steps[::-1].index(max(chunks.last_steps))
    columns = Columns.empty()
    for row in (chunks.first_steps.index(min(chunks.first_steps)), len(chunks) - 1 - behind):
        columns.extend(loaded[chunks.numbers[row]])
    return columns


def _draw_summaries(plan: Plan, loaded: Loaded) -> Drawn:
    chunks = plan.chunks
    parts = {row: _cut(plan, row, loaded[chunks.numbers[row]]) for row in plan.halves}
    if parts:
        chunks = chunks.pick(range(len(chunks)))
        for row, part in parts.items():
            if len(part):
                chunks.replace(row, build_summary(part))
        loaded = {**loaded, **{chunks.numbers[row]: part for row, part in parts.items()}}
        chunks = _sort(chunks.pick([row for row in range(len(chunks)) if row not in parts or len(parts[row])]))
    if not chunks:
        return Drawn((), (), (), 0)
    last = chunks.last_steps.index(max(chunks.last_steps))
    ends = Columns.empty()
    for row in (0, last):
        ends.extend(loaded[chunks.numbers[row]])
    has_nan = chunks.has_nan
    bounds = _split(len(chunks), _count_runs(plan.wanted, has_nan=has_nan))
    return _draw(chunks.list_extremes(bounds, has_nan=has_nan), _find_ends(ends), sum(chunks.counts), has_nan=has_nan)


def _sort(chunks: Rollup) -> Rollup:
    """The chunks by their first steps; what is in order already, as curves are that were reported in order, stays."""
    first = chunks.first_steps.tolist()
    if first == sorted(first):
        return chunks
    return chunks.pick(sorted(range(len(chunks)), key=first.__getitem__))


def _cut(plan: Plan, row: int, columns: Columns) -> Columns:
    """Those of a chunk's points that count."""
    first, end = plan.window.first, plan.ends[plan.chunks.attempts[row]]
    if plan.chunks.first_steps[row] >= first and plan.chunks.last_steps[row] < end:
        return columns
    return columns.between(first, end)


def _find_ends(columns: Columns) -> list[Drawable]:
    """The first point of the lowest step and the last one of the highest, in order of arrival."""
    first, behind = columns.steps.index(min(columns.steps)), columns.steps[::-1].index(max(columns.steps))
    places = (first, len(columns) - 1 - behind)
    return list(zip_points(columns.steps, columns.values, columns.times, places))


def _count_runs(wanted: int, *, has_nan: bool) -> int:
    """How many runs fit when each is drawn as its extremes, beside the curve's first and last point."""
    return max(1, (wanted - 2) // (3 if has_nan else 2))


def _split(count: int, runs: int) -> list[tuple[int, int]]:
    """Even (start, end) parts of `count` things, at most `runs` of them and none empty."""
    runs = min(count, runs)
    bounds = [count * index // runs for index in range(runs + 1)]
    return list(itertools.pairwise(bounds))


def _draw(runs: Iterable[Drawable], ends: Sequence[Drawable], total: int, *, has_nan: bool) -> Drawn:
    points = [ends[0], *runs, ends[1]]
    points.sort(key=itemgetter(0))
    # NaN is unlike itself: it is told apart by its step and time.
    kept = {_tell_apart(point): point for point in points}.values() if has_nan else dict.fromkeys(points)
    steps, values, times = zip(*kept, strict=True)
    return Drawn(steps, values, times, total)


def _tell_apart(point: Drawable) -> tuple[float, ...]:
    step, value, time = point
    return (step, time) if math.isnan(value) else (step, value, time)
