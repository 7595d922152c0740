"""Curves: as many points as are asked for, of however many there are, with minima, maxima, NaN and infinities kept."""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from starforge.contract.api import Curve
from starforge.errors import NotFound
from starforge_console.domain.points import Columns, Point, Summary, build_summary, merge_summaries
from starforge_console.ledger.database import Database
from starforge_console.ledger.series import ChunkSummary, list_summaries, load_chunks

POINTS_AT_LEAST: Final = 8
POINTS_AT_MOST: Final = 20_000
_CHUNKS_SHARE: Final = 4
"""With a chunk for every fourth point that is asked for, the chunks' summaries are the curve: nothing else is read."""

Load = Callable[[Iterable[int]], Mapping[int, Columns]]


class Curves:
    """The curves that were received."""

    def __init__(self, series: Database) -> None:
        self._series = series

    async def curve(self, job: str, key: str, points: int) -> Curve:
        """At most `points` points of the job's curve, by step.

        Where an attempt began again at an earlier step, the newer attempt's points count from there on.

        Raises:
            NotFound: the job has not reported that key.

        """
        wanted = min(max(points, POINTS_AT_LEAST), POINTS_AT_MOST)
        drawn = await self._series.read(
            lambda c: build_curve(
                list_summaries(c, job, key), lambda numbers: load_chunks(c, job, key, numbers), wanted
            )
        )
        if drawn is None:
            raise NotFound(f"job {job} has no curve {key!r:.80}", next_step="ask for the list of its metrics")
        return Curve(
            key=key,
            steps=tuple(point.step for point in drawn.points),
            values=tuple(_word_of(point.value) for point in drawn.points),
            times=tuple(point.time for point in drawn.points),
            total_points=drawn.total,
        )


@dataclass(frozen=True, slots=True)
class Drawn:
    """A curve's points by step, and how many they stand for."""

    points: list[Point]
    total: int


def build_curve(chunks: Sequence[ChunkSummary], load: Load, wanted: int) -> Drawn | None:
    """Draw a curve from its chunks; `load` gives the points of some. None when there are no chunks."""
    if not chunks:
        return None
    cuts = _find_cuts(chunks)
    valid = [chunk for chunk in chunks if chunk.summary.first_step < cuts[chunk.attempt]]
    if len(valid) * _CHUNKS_SHARE < wanted:
        return _draw_points(valid, load, cuts, wanted)
    return _draw_summaries(valid, load, cuts, wanted)


def _find_cuts(chunks: Sequence[ChunkSummary]) -> dict[int, float]:
    """For each attempt the step from which on a newer attempt's points count."""
    first: dict[int, int] = {}
    for chunk in chunks:
        first[chunk.attempt] = min(chunk.summary.first_step, first.get(chunk.attempt, chunk.summary.first_step))
    cuts: dict[int, float] = {}
    cut = math.inf
    for attempt in sorted(first, reverse=True):
        cuts[attempt] = cut
        cut = min(cut, first[attempt])
    return cuts


def _draw_points(valid: Sequence[ChunkSummary], load: Load, cuts: Mapping[int, float], wanted: int) -> Drawn:
    loaded = load(chunk.number for chunk in valid)
    columns = Columns.empty()
    for chunk in valid:
        columns.extend(_cut(chunk, loaded[chunk.number], cuts))
    columns = columns.in_order()
    total = len(columns)
    if total <= wanted:
        return Drawn(_list_points(columns), total)
    has_nan = any(chunk.summary.nan is not None for chunk in valid)
    bounds = _split(total, _count_runs(wanted, has_nan=has_nan))
    runs = [build_summary(columns.part(start, end)) for start, end in bounds]
    return Drawn(_draw(runs, _ends(columns)), total)


def _draw_summaries(valid: Sequence[ChunkSummary], load: Load, cuts: Mapping[int, float], wanted: int) -> Drawn:
    in_order = sorted(valid, key=lambda chunk: chunk.summary.first_step)
    last = max(valid, key=lambda chunk: min(chunk.summary.last_step, cuts[chunk.attempt] - 1))
    partial = {chunk.number for chunk in valid if chunk.summary.last_step >= cuts[chunk.attempt]}
    loaded = load(partial | {in_order[0].number, last.number})
    summaries = [
        build_summary(_cut(chunk, loaded[chunk.number], cuts)) if chunk.number in partial else chunk.summary
        for chunk in in_order
    ]
    ends = Columns.empty()
    for chunk in (in_order[0], last):
        ends.extend(_cut(chunk, loaded[chunk.number], cuts))
    has_nan = any(summary.nan is not None for summary in summaries)
    bounds = _split(len(summaries), _count_runs(wanted, has_nan=has_nan))
    runs = [merge_summaries(summaries[start:end]) for start, end in bounds]
    return Drawn(_draw(runs, _ends(ends.in_order())), sum(summary.count for summary in summaries))


def _cut(chunk: ChunkSummary, columns: Columns, cuts: Mapping[int, float]) -> Columns:
    cut = cuts[chunk.attempt]
    return columns if chunk.summary.last_step < cut else columns.below(int(cut))


def _count_runs(wanted: int, *, has_nan: bool) -> int:
    """How many runs fit when each is drawn as its extremes, beside the curve's first and last point."""
    return max(1, (wanted - 2) // (3 if has_nan else 2))


def _split(count: int, runs: int) -> list[tuple[int, int]]:
    """Even (start, end) parts of `count` things, at most `runs` of them and none empty."""
    runs = min(count, runs)
    bounds = [count * index // runs for index in range(runs + 1)]
    return list(itertools.pairwise(bounds))


def _ends(columns: Columns) -> list[Point]:
    return [Point(columns.steps[i], columns.values[i], columns.times[i]) for i in (0, -1)]


def _draw(runs: Sequence[Summary], ends: Sequence[Point]) -> list[Point]:
    points = [ends[0], *(point for run in runs for point in run.points()), ends[1]]
    points.sort(key=lambda point: point.step)
    # NaN is unlike itself: it is told apart by its step and time.
    seen = {(point.step, point.time, _word_of(point.value)): point for point in points}
    return list(seen.values())


def _list_points(columns: Columns) -> list[Point]:
    return [Point(*row) for row in zip(columns.steps, columns.values, columns.times, strict=True)]


def _word_of(value: float) -> float | Literal["nan", "inf", "-inf"]:
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value
