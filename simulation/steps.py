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
    MOVE = "a job is moved in the queue"
    DRAIN = "a machine is drained"
    DRAIN_WITH_PAUSE = "a machine is drained and its jobs are paused"
    UNDRAIN = "a machine takes jobs again"
    MAINTENANCE = "maintenance begins"
    MAINTENANCE_ENDS = "maintenance ends"
    QUOTA = "a quota is changed"
    WINDOW = "a window is set"
    WINDOW_GOES = "a window is removed"
    DEQUEUE = "a pass of the queue"
    RECONCILE = "a round of reconciliation"
    CLEANUP = "a round of cleanup"
    SWEEP = "a round of sweeping"
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


_WORK: Final[Mapping[What, int]] = {
    What.SUBMIT: 8,
    What.DEQUEUE: 10,
    What.RECONCILE: 10,
    What.TOGETHER: 12,
    What.TIME: 12,
    What.STOP: 5,
    What.PAUSE: 2,
    What.RESUME: 2,
    What.RETRY: 2,
    What.MOVE: 1,
    What.CLEANUP: 3,
    What.SWEEP: 2,
    What.CONSOLE_RESTARTS: 1,
    What.CLOCK_STEPS: 1,
    What.DAEMON_DIES: 1,
    What.ENGINE_RESTARTS: 1,
    What.REBOOT: 1,
    What.CUT_OFF: 2,
    What.HEAL: 3,
    What.WIRE: 3,
    What.ENGINE_FAULT: 3,
    What.NEIGHBOUR: 2,
    What.LATE_ARRIVES: 3,
}
"""What every seed draws from, and how often."""

_ADMINISTRATION: Final[Mapping[What, int]] = {
    What.DRAIN: 1,
    What.DRAIN_WITH_PAUSE: 1,
    What.UNDRAIN: 2,
    What.MAINTENANCE: 1,
    What.MAINTENANCE_ENDS: 2,
    What.QUOTA: 2,
    What.WINDOW: 2,
    What.WINDOW_GOES: 1,
}

THEMES: Final[Mapping[str, Mapping[What, int]]] = {
    "machines": {What.WIRE: 8, What.ENGINE_FAULT: 6, What.CUT_OFF: 3, What.HEAL: 4, What.NEIGHBOUR: 9},
    "everything": _ADMINISTRATION,
    "pauses": {
        What.PAUSE: 8,
        What.RESUME: 7,
        What.DRAIN_WITH_PAUSE: 4,
        What.DRAIN: 1,
        What.UNDRAIN: 6,
        What.MAINTENANCE: 2,
        What.MAINTENANCE_ENDS: 4,
        What.STOP: 3,
        What.RECONCILE: 14,
        What.NEIGHBOUR: 0,
    },
    "hours": {
        What.WINDOW: 6,
        What.WINDOW_GOES: 1,
        What.CLOCK_STEPS: 5,
        What.CONSOLE_RESTARTS: 4,
        What.TIME: 18,
        What.DEQUEUE: 14,
        What.STOP: 2,
        What.RETRY: 3,
        What.NEIGHBOUR: 0,
    },
    "room": {
        What.SUBMIT: 22,
        What.DEQUEUE: 26,
        What.MOVE: 6,
        What.QUOTA: 4,
        What.STOP: 4,
        What.PAUSE: 2,
        What.NEIGHBOUR: 0,
        What.CUT_OFF: 1,
        What.WIRE: 1,
        What.ENGINE_FAULT: 1,
        What.TOGETHER: 8,
    },
    "races": {
        What.TOGETHER: 40,
        What.SUBMIT: 8,
        What.TIME: 8,
        What.RECONCILE: 2,
        What.DEQUEUE: 0,
        What.STOP: 1,
        What.UNDRAIN: 2,
        What.NEIGHBOUR: 8,
        What.CUT_OFF: 0,
        What.WIRE: 8,
        What.ENGINE_FAULT: 10,
    },
    "answers": {
        What.WIRE: 16,
        What.LATE_ARRIVES: 6,
        What.TOGETHER: 16,
        What.RECONCILE: 16,
        What.CONSOLE_RESTARTS: 3,
        What.CUT_OFF: 7,
        What.HEAL: 4,
        What.TIME: 16,
        What.NEIGHBOUR: 0,
        What.ENGINE_FAULT: 1,
    },
}
"""What a seed looks at most: the more some things happen, the more often they meet. Zero is never."""

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

WISHES: Final = (What.SUBMIT, What.STOP, What.PAUSE, What.RESUME, What.RETRY, What.MOVE, *_ADMINISTRATION)
"""What users and administrators wish."""

_NAMES: Final = tuple(THEMES)
_BAGS: Final = {
    name: [what for what, often in {**_WORK, **theme}.items() for _ in range(often)] for name, theme in THEMES.items()
}


@dataclass(frozen=True, slots=True)
class Step:
    """`what` happens; the numbers choose whom it concerns and how, whatever there is."""

    what: What
    a: int = 0
    b: int = 0

    def __str__(self) -> str:
        return f"{self.what} ({self.a}, {self.b})"


def find_theme(seed: int) -> str:
    """What this seed looks at most."""
    return _NAMES[seed % len(_NAMES)]


def draw_steps(seed: int, count: int, theme: str = "") -> list[Step]:
    """The steps of this seed, of `theme` or its own one. The first ones bring work: there is something to break."""
    chance = random.Random(seed)
    bag = _BAGS[theme or find_theme(seed)]
    first = [Step(What.SUBMIT, chance.randrange(1000), chance.randrange(1000)) for _ in range(3)]
    rest = [Step(chance.choice(bag), chance.randrange(1000), chance.randrange(1000)) for _ in range(count - 3)]
    return [*first, Step(What.DEQUEUE), *rest]
