"""Curves: as many points as are asked for, of however many there are, with minima, maxima, NaN and infinities kept."""

import itertools
import math
from array import array
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Final, Literal

from starforge.contract.api import Curve
from starforge.errors import NotFound
from starforge_console.domain.points import Columns, Point, build_summary
from starforge_console.domain.rollup import Rollup
from starforge_console.ledger.database import Database
from starforge_console.ledger.points import load_chunks, load_rollup

POINTS_AT_LEAST: Final = 8
POINTS_AT_MOST: Final = 20_000
_CHUNKS_SHARE: Final = 4
"""With a chunk for every fourth point that is asked for, the chunks' summaries are the curve: nothing else is read."""
_CHUNKS_A_READ: Final = 16
_PIECES_AT_MOST: Final = 64
"""Fewer chunks than this can grow: each is smaller than the one before, and together they are smaller than one."""

Load = Callable[[Iterable[int]], Mapping[int, Columns]]


class Curves:
    """The curves that were received."""

    def __init__(self, series: Database) -> None:
        self._series = series

    async def curve(self, job: str, key: str, points: int, attempt: int | None = None) -> Curve:
        """At most `points` points of the job's curve, by step.

        Where an attempt began again at an earlier step, the newer attempt's points count from there on; `attempt` asks
        for all points of that attempt alone.

        Raises:
            NotFound: the job, or that attempt of it, has not reported that key.

        """
        found = await self._find(job, key, points, attempt)
        if found is None:
            whose = f"job {job}" if attempt is None else f"attempt {attempt} of job {job}"
            raise NotFound(f"{whose} has no curve {key!r:.80}", next_step="ask for the list of its metrics")
        return found

    async def curves(
        self, wanted: Sequence[tuple[str, str]], points: int, attempt: int | None = None
    ) -> dict[tuple[str, str], Curve]:
        """The curves of these (job, key), each as `curve` gives it; what is not there is left out."""
        # One transaction each: a reader that stays long keeps the write-ahead log from being cleared.
        found = {(job, key): await self._find(job, key, points, attempt) for job, key in dict.fromkeys(wanted)}
        return {name: curve for name, curve in found.items() if curve is not None}

    async def points(self, job: str, key: str, attempt: int | None = None) -> AsyncIterator[tuple[int, Columns]]:
        """Every point of a curve in order of arrival, superseded ones too, as (attempt, points); none without it."""
        # What may still grow into one is read at the same moment as the list of the chunks.
        rollup, tail = await self._series.read(
            lambda c: ((found := load_rollup(c, job, key)), load_chunks(c, job, key, found.numbers[-_PIECES_AT_MOST:]))
        )
        for start in range(0, len(rollup), _CHUNKS_A_READ):
            rows = range(start, min(start + _CHUNKS_A_READ, len(rollup)))
            missing = [rollup.numbers[row] for row in rows if rollup.numbers[row] not in tail]
            there = (
                await self._series.read(partial(load_chunks, job_id=job, key=key, numbers=missing)) if missing else {}
            )
            for row in rows:
                number = rollup.numbers[row]
                if attempt in (None, rollup.attempts[row]) and (number in tail or number in there):
                    yield rollup.attempts[row], tail[number] if number in tail else there[number]

    async def _find(self, job: str, key: str, points: int, attempt: int | None) -> Curve | None:
        wanted = min(max(points, POINTS_AT_LEAST), POINTS_AT_MOST)

        def choose(rollup: Rollup) -> Rollup:
            rows = [row for row, number in enumerate(rollup.attempts) if number == attempt]
            return rollup if attempt is None else rollup.pick(rows)

        drawn = await self._series.read(
            lambda c: build_curve(
                choose(load_rollup(c, job, key)), lambda numbers: load_chunks(c, job, key, numbers), wanted
            )
        )
        return None if drawn is None else _build_answer(key, drawn)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A curve's points by step, and how many they stand for."""

    points: list[Point]
    total: int


def build_curve(chunks: Rollup, load: Load, wanted: int) -> Drawn | None:
    """Draw a curve from its chunks; `load` gives the points of some. None when there are no chunks."""
    if not chunks:
        return None
    cuts = _find_cuts(chunks)
    if len(cuts) > 1:
        chunks = chunks.pick([row for row, step in enumerate(chunks.first_steps) if step < cuts[chunks.attempts[row]]])
    if len(chunks) * _CHUNKS_SHARE < wanted:
        return _draw_points(chunks, load, cuts, wanted)
    return _draw_summaries(chunks, load, cuts, wanted)


def _build_answer(key: str, drawn: Drawn) -> Curve:
    steps, values, times = zip(*drawn.points, strict=True)
    if not math.isfinite(sum(values)):  # a sum is cheap, and finite only where no value is odd
        values = tuple(map(_word_of, values))
    # Checking each of a thousand points that come from typed columns would cost more than drawing them.
    return Curve.model_construct(key=key, steps=steps, values=values, times=times, total_points=drawn.total)


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


def _draw_points(chunks: Rollup, load: Load, cuts: Mapping[int, float], wanted: int) -> Drawn:
    loaded = load(chunks.numbers)
    columns = Columns.empty()
    for row, number in enumerate(chunks.numbers):
        columns.extend(_cut(chunks, row, loaded[number], cuts))
    total = len(columns)
    if total <= wanted:
        columns = columns.in_order()
        return Drawn(list(map(Point, columns.steps, columns.values, columns.times)), total)
    # Points are in order of arrival, nearly that of steps: bringing them in order would cost more than drawing them.
    has_nan = chunks.has_nan
    bounds = _split(total, _count_runs(wanted, has_nan=has_nan))
    if has_nan:
        runs = (build_summary(columns.part(start, end)).points() for start, end in bounds)
    else:
        runs = (_find_extremes(columns, start, end) for start, end in bounds)
    return Drawn(_draw(itertools.chain.from_iterable(runs), _find_ends(columns)), total)


def _find_extremes(columns: Columns, start: int, end: int) -> list[Point]:
    values = columns.values[start:end]
    places = (start + values.index(min(values)), start + values.index(max(values)))
    return [_point(columns, place) for place in places]


def _find_ends(columns: Columns) -> list[Point]:
    """The first point of the lowest step and the last one of the highest, in order of arrival."""
    first, behind = columns.steps.index(min(columns.steps)), columns.steps[::-1].index(max(columns.steps))
    return [_point(columns, first), _point(columns, len(columns) - 1 - behind)]


def _point(columns: Columns, index: int) -> Point:
    return Point(columns.steps[index], columns.values[index], columns.times[index])


def _draw_summaries(chunks: Rollup, load: Load, cuts: Mapping[int, float], wanted: int) -> Drawn:
    if list(chunks.first_steps) != sorted(chunks.first_steps):
        chunks = chunks.pick(sorted(range(len(chunks)), key=chunks.first_steps.__getitem__))
    halves, reach = [], chunks.last_steps
    if len(cuts) > 1:
        halves = [row for row, step in enumerate(reach) if step >= cuts[chunks.attempts[row]]]
        reach = array("q", [int(min(step, cuts[chunks.attempts[row]] - 1)) for row, step in enumerate(reach)])
    last = reach.index(max(reach))
    loaded = load({chunks.numbers[row] for row in (*halves, 0, last)})
    ends = Columns.empty()
    for row in (0, last):
        ends.extend(_cut(chunks, row, loaded[chunks.numbers[row]], cuts))
    for row in halves:
        chunks.replace(row, build_summary(_cut(chunks, row, loaded[chunks.numbers[row]], cuts)))
    has_nan = chunks.has_nan
    bounds = _split(len(chunks), _count_runs(wanted, has_nan=has_nan))
    runs = (chunks.merge(start, end, has_nan=has_nan) for start, end in bounds)
    return Drawn(_draw(itertools.chain.from_iterable(runs), _find_ends(ends)), sum(chunks.counts))


def _cut(chunks: Rollup, row: int, columns: Columns, cuts: Mapping[int, float]) -> Columns:
    cut = cuts[chunks.attempts[row]]
    return columns if chunks.last_steps[row] < cut else columns.below(int(cut))


def _count_runs(wanted: int, *, has_nan: bool) -> int:
    """How many runs fit when each is drawn as its extremes, beside the curve's first and last point."""
    return max(1, (wanted - 2) // (3 if has_nan else 2))


def _split(count: int, runs: int) -> list[tuple[int, int]]:
    """Even (start, end) parts of `count` things, at most `runs` of them and none empty."""
    runs = min(count, runs)
    bounds = [count * index // runs for index in range(runs + 1)]
    return list(itertools.pairwise(bounds))


def _draw(runs: Iterable[Point], ends: Sequence[Point]) -> list[Point]:
    points = [ends[0], *runs, ends[1]]
    points.sort(key=itemgetter(0))
    # NaN is unlike itself: it is told apart by its step and time.
    return list({point if point[1] == point[1] else (point[0], point[2]): point for point in points}.values())


def _word_of(value: float) -> float | Literal["nan", "inf", "-inf"]:
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value
