"""How good checkpoints are: what the primary metric of a job's method was at their steps."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from starforge.contract.results import Curve
from starforge.errors import NotFound
from starforge.recipes.model import Recipe
from starforge_console.domain.retention import Better, find_values

_CURVE_POINTS: Final = 20_000


class CurveReader(Protocol):
    """The curves that ingest has received."""

    async def curve(self, job: str, key: str, points: int) -> Curve:
        """At most about `points` points that keep minima and maxima. Raises NotFound."""


@dataclass(frozen=True, slots=True)
class Ratings:
    """The metric's value by step, where it is known, and which of two values is better."""

    values: Mapping[int, float]
    better: Better


@dataclass(frozen=True, slots=True)
class Rater:
    """Looks up what jobs have reported."""

    curves: CurveReader
    catalog: Mapping[str, Recipe]

    async def find_ratings(self, job: str, method: str, steps: Sequence[int]) -> Ratings | None:
        """The job's values at `steps`; None where its method has no primary metric, or the job has not reported it."""
        recipe = await asyncio.to_thread(self.catalog.get, method)  # the first time, its file is read
        if recipe is None or recipe.primary_metric is None:
            return None
        try:
            curve = await self.curves.curve(job, recipe.primary_metric.key, _CURVE_POINTS)
        except NotFound:
            return None
        return Ratings(find_values(steps, curve.steps, curve.values), recipe.primary_metric.better)
