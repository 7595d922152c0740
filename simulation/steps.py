"""What can happen in a simulation, as values: drawn by a seed, and repeated from the list of them."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class What(StrEnum):
    """One step."""

    SUBMIT = "a job is submitted"
    STOP = "a job is stopped"
    PAUSE = "a job is paused"
    RESUME = "a job is resumed"
    RETRY = "a job is retried by its user"
    DEQUEUE = "a pass of the queue"
    RECONCILE = "a round of reconciliation"
    CLEANUP = "a round of cleanup"
    TOGETHER = "all loops at once"
    TIME = "time passes"
    CONSOLE_RESTARTS = "the console is killed and restarted"
    CLOCK_STEPS = "the console's clock is set"
    DAEMON_DIES = "a daemon is killed"
    ENGINE_RESTARTS = "an engine is restarted"
    REBOOT = "a machine is rebooted"
    CUT_OFF = "a machine is cut off"
    HEAL = "a machine is reached again"
    WIRE = "a call is lost or late"
    ENGINE_FAULT = "a call to an engine goes wrong"
    NEIGHBOUR = "another install takes GPUs"
    LATE_ARRIVES = "what was late arrives"


_OFTEN: Final[Mapping[What, int]] = {
    What.SUBMIT: 8,
    What.DEQUEUE: 10,
    What.RECONCILE: 10,
    What.TOGETHER: 12,
    What.TIME: 12,
    What.WIRE: 8,
    What.ENGINE_FAULT: 6,
    What.STOP: 6,
    What.PAUSE: 2,
    What.RESUME: 2,
    What.CUT_OFF: 3,
    What.HEAL: 4,
    What.CLEANUP: 3,
    What.NEIGHBOUR: 8,
    What.LATE_ARRIVES: 3,
}

FAULTS: Final = (
    What.CONSOLE_RESTARTS,
    What.CLOCK_STEPS,
    What.DAEMON_DIES,
    What.ENGINE_RESTARTS,
    What.REBOOT,
    What.CUT_OFF,
    What.WIRE,
    What.ENGINE_FAULT,
    What.NEIGHBOUR,
)
"""What nobody wishes for."""

_BAG: Final = [what for what in What for _ in range(_OFTEN.get(what, 1))]


@dataclass(frozen=True, slots=True)
class Step:
    """`what` happens; the numbers choose whom it concerns and how, whatever there is."""

    what: What
    a: int = 0
    b: int = 0

    def __str__(self) -> str:
        return f"{self.what} ({self.a}, {self.b})"


def draw_steps(seed: int, count: int) -> list[Step]:
    """The steps of this seed. The first ones bring work, so that there is something to break."""
    chance = random.Random(seed)
    first = [Step(What.SUBMIT, chance.randrange(1000), chance.randrange(1000)) for _ in range(3)]
    rest = [Step(chance.choice(_BAG), chance.randrange(1000), chance.randrange(1000)) for _ in range(count - 3)]
    return [*first, Step(What.DEQUEUE), *rest]
