"""What administrators of a simulation have laid down, as they said it: by this it is judged what the console does."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from simulation.clocks import VirtualClock
from starforge_console.domain.opening import ANY, CPU, KeptWindow, WindowKind, WindowOf
from starforge_console.domain.quota import TEAM, USER, Holder, Limit
from starforge_console.domain.window_syntax import parse_window

FLEET: Final = "lab"
TEAM_OF_ADA: Final = "vision"
GRACE_S: Final = 30.0
"""Of every job of a simulation."""
_ZONES: Final = ("UTC", "Asia/Shanghai", "America/New_York")
_WINDOWS_OF: Final[tuple[tuple[WindowKind, str], ...]] = (
    ("fleet", FLEET),
    ("team", TEAM_OF_ADA),
    ("profile", ANY),
    ("fleet", FLEET),
    ("profile", CPU),
)
_DAY_S: Final = 86_400.0
_DAYS: Final = (-1, 0, 1)
_BETWEEN_S: Final = 720.0


class Asks(NamedTuple):
    """What rules look at of a job: who owns it, and how many GPUs it asks for."""

    user: str
    gpus: int


class Closed(NamedTuple):
    """Nothing runs from `closes` to `opens` (Unix seconds); whoever runs has begun to end a grace before that.

    `made_at` is when it was said so, by the clock that nobody sets.
    """

    closes: float
    opens: float
    made_at: float

    def holds(self, at: float) -> bool:
        """Whether a job may not start at that moment, and has to end."""
        return self.closes - GRACE_S <= at < self.opens


@dataclass(frozen=True, slots=True)
class Hours:
    """A window, and when it is closed in the days around its making."""

    kept: KeptWindow
    closed: tuple[Closed, ...]


@dataclass(slots=True)
class Rules:
    """All that hold now. `is_strict`: jobs have time limits, and the fleet requires them."""

    is_strict: bool
    drained: set[str] = field(default_factory=set)
    in_maintenance: bool = False
    limits: dict[Holder, Limit] = field(default_factory=dict)
    hours: dict[WindowOf, Hours] = field(default_factory=dict)

    def list_limits(self, user: str) -> list[tuple[Holder, Limit]]:
        """The limits that bind jobs of this user."""
        return [(holder, self.limits[holder]) for holder in holders_of(user) if holder in self.limits]

    def list_closed(self, asks: Asks) -> Iterator[Closed]:
        """When a job that asks so may not run: of every window that binds it."""
        bound = {WindowOf("fleet", FLEET), WindowOf("profile", ANY if asks.gpus else CPU)}
        bound |= {WindowOf("team", TEAM_OF_ADA)} if asks.user == "ada" else set()
        for of in bound & set(self.hours):
            yield from self.hours[of].closed

    def is_closed(self, asks: Asks, at: float) -> bool:
        """Whether a job that asks so may not start at that moment."""
        return any(closed.holds(at) for closed in self.list_closed(asks))


def holders_of(user: str) -> tuple[Holder, ...]:
    """Whose limits bind jobs of this user."""
    return (Holder(USER, user), *([Holder(TEAM, TEAM_OF_ADA)] if user == "ada" else []))


def draw_hours(clock: VirtualClock, a: int, b: int) -> Hours:
    """A window that closes in some minutes and opens again some minutes later, once or twice; every day so."""
    zone, of = _ZONES[a % len(_ZONES)], WindowOf(*_WINDOWS_OF[a % len(_WINDOWS_OF)])
    made_at = clock.monotonic()
    closes = clock.now() // 60 * 60 + 60 * (2 + b % 7)
    opens = closes + 60 * (4 + b % 11)
    closed = [Closed(closes, opens, made_at)]
    if b % 2:
        closed.append(Closed(opens + _BETWEEN_S, opens + _BETWEEN_S + 240, made_at))
    starts = [one.opens for one in closed]
    ends = [*(one.closes for one in closed[1:]), closes + _DAY_S]
    spans = [f"mon-sun {_show(start, zone)}-{_show(end, zone)}" for start, end in zip(starts, ends, strict=True)]
    kept = KeptWindow(of, parse_window(zone, spans), goes_on=b % 3 != 0)
    every = (Closed(one.closes + day * _DAY_S, one.opens + day * _DAY_S, made_at) for one in closed for day in _DAYS)
    return Hours(kept, tuple(every))


def _show(at: float, zone: str) -> str:
    return f"{datetime.fromtimestamp(at, ZoneInfo(zone)):%H:%M}"
