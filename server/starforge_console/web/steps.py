"""How far jobs have trained, beside what the ledger knows of them."""

from collections.abc import Sequence
from dataclasses import replace

from starforge_console.ledger.database import Database
from starforge_console.ledger.listing import JobLine
from starforge_console.ledger.steps import load_steps


async def add_steps(series: Database, lines: Sequence[JobLine]) -> list[JobLine]:
    """The same lines in the same order, each with the step that its newest attempt has reached."""
    ids = [line.job.id for line in lines if line.job.attempt_number]
    if not ids:
        return list(lines)
    steps = await series.read(lambda c: load_steps(c, ids))
    return [replace(line, step=steps.get(line.job.id)) for line in lines]
