"""Runs of a simulation: one seed, and the shortest history that shows the same violation."""

import asyncio
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from e2e.support.owned import MEMORY, owned_folder
from simulation.mutants import NO_MUTANT, find_mutant
from simulation.safety import Safety, Violation
from simulation.steps import Step, draw_steps
from simulation.world import World

STEPS: Final = 60
_REPLAYS_AT_MOST: Final = 150


@dataclass
class Outcome:
    """What a run showed; `violation` is empty where every sentence held."""

    seed: int
    steps: Sequence[Step]
    violation: str = ""
    events: Counter[str] = field(default_factory=Counter)


def run_seed(seed: int, mutant: str = NO_MUTANT) -> Outcome:
    """The run of this seed, cut after the step that showed a violation; `mutant` names what is built otherwise."""
    return replay(seed, draw_steps(seed, STEPS, find_mutant(mutant).theme), mutant)


def replay(seed: int, steps: Sequence[Step], mutant: str = NO_MUTANT) -> Outcome:
    """The same chances with these steps."""
    with owned_folder(MEMORY) as memory, tempfile.TemporaryDirectory(dir=memory) as folder:
        return asyncio.run(_replay(Path(folder), seed, steps, mutant))


def shorten(outcome: Outcome, mutant: str = NO_MUTANT) -> Outcome:
    """A history of which no step can be left out (or that many replays did not find one of)."""
    best, left, size = outcome, _REPLAYS_AT_MOST, max(1, len(outcome.steps) // 2)
    while size and left:
        start, is_shorter = 0, False
        while start < len(best.steps) and left:
            left -= 1
            fewer = [*best.steps[:start], *best.steps[start + size :]]
            tried = replay(outcome.seed, fewer, mutant)
            if tried.violation:
                best, is_shorter = tried, True
            else:
                start += size
        if not is_shorter or size > 1:
            size //= 2
    return best


async def _replay(folder: Path, seed: int, steps: Sequence[Step], mutant: str) -> Outcome:
    world = World(folder, seed, find_mutant(mutant))
    world.wakeups.bind()
    safety, done, violation = Safety(world), 0, ""
    try:
        for step in steps:
            done += 1
            await world.do(step)
            safety.look(step)
        await world.settle()
        safety.look_at_end()
    except Violation as found:
        violation = str(found)
    finally:
        await world.close()
    events = world.events + world.fleet.met
    for machine in world.machines:
        events += machine.daemon.met
    return Outcome(seed, steps[:done], violation, events)
