"""Asks the same of many jobs; one that refuses keeps no other from being asked."""

from collections.abc import Awaitable, Callable, Iterable

from starforge.errors import StarForgeError


async def ask_each(job_ids: Iterable[str], ask: Callable[[str], Awaitable[None]]) -> dict[str, StarForgeError]:
    """The jobs that could not be asked, each with the reason; those that could are not in it."""
    refused: dict[str, StarForgeError] = {}
    for job_id in job_ids:
        try:
            await ask(job_id)
        except StarForgeError as error:
            refused[job_id] = error
    return refused
