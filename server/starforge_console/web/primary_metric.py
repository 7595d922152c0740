"""The metric by which runs of a job's method are compared: what is shown of a job before its other curves."""

import asyncio
from collections.abc import Mapping

from starforge.recipes.model import PrimaryMetric, Recipe


async def find_primary(catalog: Mapping[str, Recipe], method: str) -> str | None:
    """The key of the method's primary metric; None when it has none or is not published here any more."""
    found = await find_primary_metric(catalog, method)
    return None if found is None else found.key


async def find_primary_metric(catalog: Mapping[str, Recipe], method: str) -> PrimaryMetric | None:
    """The same with which of two values is better."""
    recipe = await asyncio.to_thread(catalog.get, method)  # the first time, its file is read
    return None if recipe is None else recipe.primary_metric
