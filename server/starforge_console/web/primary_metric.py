"""The metric by which runs of a job's method are compared: what is shown of a job before its other curves."""

import asyncio
from collections.abc import Mapping

from starforge.recipes.model import Recipe


async def find_primary(catalog: Mapping[str, Recipe], method: str) -> str | None:
    """The key of the method's primary metric; None when it has none or is not published here any more."""
    recipe = await asyncio.to_thread(catalog.get, method)  # the first time, its file is read
    return None if recipe is None or recipe.primary_metric is None else recipe.primary_metric.key
