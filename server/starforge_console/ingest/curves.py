"""Curves: as many points as are asked for, of however many there are, with minima, maxima, NaN and infinities kept."""

import itertools
import math
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, Literal

from starforge.contract.results import Curve
from starforge.errors import NotFound
from starforge_console.domain.drawing import EVERYTHING, Drawn, Look, Plan, Window, draw_curve, plan_curve
from starforge_console.domain.points import Columns
from starforge_console.domain.rollup import Rollup
from starforge_console.ledger.database import Database
from starforge_console.ledger.point_reads import Name, load_chunks, load_rollups

POINTS_AT_LEAST: Final = 8
POINTS_AT_MOST: Final = 20_000
_CHUNKS_A_READ: Final = 16
_PIECES_AT_MOST: Final = 64
"""Fewer chunks than this can grow: each is smaller than the one before, and together they are smaller than one."""
_CURVES_A_READ: Final = 100
_CHUNKS_AT_ONCE: Final = 256
"""So many chunks' points, 6 MiB, are in memory at once when many curves are read."""


LoadChunks = Callable[[Mapping[Name, Collection[int]]], Mapping[Name, Mapping[int, Columns]]]


class Curves:
    """The curves that were received."""

    def __init__(self, series: Database) -> None:
        self._series = series

    async def curve(
        self, job: str, key: str, points: int, attempt: int | None = None, window: Window = EVERYTHING
    ) -> Curve:
        """At most `points` points of the job's curve, by step, of those within the window.

        Where an attempt began again at an earlier step, the newer attempt's points count from there on; `attempt` asks
        for all points of that attempt alone.

        Raises:
            NotFound: the job, or that attempt of it, has not reported that key.

        """
        found = await self.look({(job, key): Look(points, attempt, window)})
        if (job, key) not in found:
            whose = f"job {job}" if attempt is None else f"attempt {attempt} of job {job}"
            raise NotFound(f"{whose} has no curve {key!r:.80}", next_step="ask for the list of its metrics")
        return found[job, key]

    async def curves(self, wanted: Sequence[Name], points: int, attempt: int | None = None) -> dict[Name, Curve]:
        """The curves of these (job, key), each as `curve` gives it; what is not there is left out."""
        return await self.look(dict.fromkeys(wanted, Look(points, attempt)))

    async def look(self, wanted: Mapping[Name, Look]) -> dict[Name, Curve]:
        """The curves of these (job, key) as each is asked for; what is not there is left out."""
        found: dict[Name, Curve] = {}
        # Some at a time: a reader that stays long keeps the write-ahead log from being cleared.
        looks = iter(wanted.items())
        while part := dict(itertools.islice(looks, _CURVES_A_READ)):
            found |= await self._draw(part)
        return found

    async def points(self, job: str, key: str, attempt: int | None = None) -> AsyncIterator[tuple[int, Columns]]:
        """Every point of a curve in order of arrival, superseded ones too, as (attempt, points); none without it."""
        name = (job, key)
        # What may still grow into one is read at the same moment as the list of the chunks.
        rollup, tail = await self._series.read(
            lambda c: (
                found := load_rollups(c, [name]).get(name, Rollup.empty()),
                load_chunks(c, {name: found.numbers[-_PIECES_AT_MOST:]})[name],
            )
        )
        for start in range(0, len(rollup), _CHUNKS_A_READ):
            rows = range(start, min(start + _CHUNKS_A_READ, len(rollup)))
            missing = {name: [rollup.numbers[row] for row in rows if rollup.numbers[row] not in tail]}
            there = (await self._series.read(partial(load_chunks, wanted=missing)))[name] if missing[name] else {}
            for row in rows:
                number = rollup.numbers[row]
                if attempt in (None, rollup.attempts[row]) and (number in tail or number in there):
                    yield rollup.attempts[row], tail[number] if number in tail else there[number]

    async def _draw(self, wanted: Mapping[Name, Look]) -> dict[Name, Curve]:
        return await self._series.read(
            lambda c: _draw_curves(wanted, load_rollups(c, wanted), lambda numbers: load_chunks(c, numbers))
        )


def _draw_curves(wanted: Mapping[Name, Look], rollups: Mapping[Name, Rollup], load: LoadChunks) -> dict[Name, Curve]:
    plans: dict[Name, Plan] = {}
    for name, rollup in rollups.items():
        look = wanted[name]
        rows = [row for row, number in enumerate(rollup.attempts) if number == look.attempt]
        chosen = rollup if look.attempt is None else rollup.pick(rows)
        plan = plan_curve(chosen, min(max(look.points, POINTS_AT_LEAST), POINTS_AT_MOST), look.window)
        if plan is not None:
            plans[name] = plan
    found: dict[Name, Curve] = {}
    for some in _batch(plans):
        loaded = load({name: plan.numbers for name, plan in some.items()})
        found |= {name: _build_answer(name[1], draw_curve(plan, loaded[name])) for name, plan in some.items()}
    return {name: found[name] for name in wanted if name in found}


def _batch(plans: Mapping[Name, Plan]) -> Iterator[dict[Name, Plan]]:
    """The plans in parts of which none, unless it is one curve alone, needs more than `_CHUNKS_AT_ONCE` chunks."""
    part: dict[Name, Plan] = {}
    chunks = 0
    for name, plan in plans.items():
        if part and chunks + len(plan.numbers) > _CHUNKS_AT_ONCE:
            yield part
            part, chunks = {}, 0
        part[name] = plan
        chunks += len(plan.numbers)
    if part:
        yield part


def _build_answer(key: str, drawn: Drawn) -> Curve:
    values: Sequence[float | Literal["nan", "inf", "-inf"]] = drawn.values
    if not math.isfinite(sum(drawn.values)):  # a sum is cheap, and finite only where no value is odd
        values = tuple(map(_word_of, drawn.values))
    # Checking each of a thousand points that come from typed columns would cost more than drawing them.
    return Curve.model_construct(
        key=key, steps=tuple(drawn.steps), values=tuple(values), times=tuple(drawn.times), total_points=drawn.total
    )


def _word_of(value: float) -> float | Literal["nan", "inf", "-inf"]:
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value
