"""Whose windows bind a job, whether it may start now, and when it has to end. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Final, Literal, NamedTuple
from zoneinfo import ZoneInfo

from starforge.contract.launch import PoolRequest
from starforge.hardware.series import FAMILIES
from starforge_console.domain.waiting import WaitReason
from starforge_console.domain.window_syntax import DAYS
from starforge_console.domain.windows import Window, find_close, find_start, is_open

WindowKind = Literal["fleet", "team", "profile"]
KINDS: Final[tuple[WindowKind, ...]] = ("fleet", "team", "profile")
CPU: Final = "cpu"
ANY: Final = "any"


class WindowOf(NamedTuple):
    """Whose window it is."""

    kind: WindowKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class KeptWindow:
    """A window that is in force. `goes_on`: what it stopped goes on by itself when it opens again."""

    of: WindowOf
    window: Window
    goes_on: bool = True


Bound = tuple[KeptWindow, ...]
"""The windows that bind one job."""


class Closing(NamedTuple):
    """A job has to end now: what closes, and when it may start again; None where that does not come by itself."""

    closed: Bound
    start: float | None

    @property
    def goes_on(self) -> bool:
        """Whether the job goes on by itself."""
        return self.start is not None and all(one.goes_on for one in self.closed)


@dataclass(frozen=True, slots=True)
class Windows:
    """All that are in force, with the team of each user by id."""

    kept: Bound = ()
    teams: Mapping[int, str | None] = field(default_factory=dict)

    def bind(self, user_id: int, pools: Sequence[PoolRequest], fleet: str | None) -> Bound:
        """Those that bind a job of this user and shape, in this fleet; without one those of any fleet are left out."""
        if not self.kept:
            return ()
        names = {WindowOf("profile", name) for name in name_profiles(pools)}
        team = self.teams.get(user_id)
        names |= {WindowOf("team", team)} if team else set()
        names |= {WindowOf("fleet", fleet)} if fleet else set()
        return tuple(one for one in self.kept if one.of in names)

    def bind_fleet(self, fleet: str) -> Bound:
        """The fleet's own."""
        return tuple(one for one in self.kept if one.of == ("fleet", fleet))


NO_WINDOWS: Final = Windows()


def name_profiles(pools: Iterable[PoolRequest]) -> set[str]:
    """The profiles whose windows bind a job of these pools: what they ask for, and the families that hold it."""
    names: set[str] = set()
    for pool in pools:
        if not pool.gpus_per_node:
            names.add(CPU)
        elif pool.series is None:
            names.add(ANY)
        else:
            names |= {pool.series, *(family for family, members in FAMILIES.items() if pool.series in members)}
    return names


def find_joint_start(bound: Bound, at: float, grace_s: float) -> float | None:
    """When a job with these windows may start, from `at` on; None when that time does not come."""
    return _find_start(bound, at, grace_s) if bound else at


def explain_closed(bound: Bound, at: float, grace_s: float) -> WaitReason | None:
    """Why a job with these windows may not start now, and when it may; None when it may.

    The text is the same for as long as the same holds, so that a job that waits is written down once.
    """
    closed = _list_closed(bound, at, grace_s)
    if not closed:
        return None
    start = find_joint_start(bound, at, grace_s)
    zone = closed[0].window.zone
    closes = [one for one in closed if is_open([one.window], at)]
    if len(closes) == len(closed):
        end = min(close for one in closes if (close := find_close([one.window], at)) is not None)
        why = f"closes {describe_instant(end, zone)}, and a job begins to end {grace_s:g} s before that"
    else:
        why = "is closed"
    when = f"it may start {describe_instant(start, zone)}" if start is not None else _describe_never(closed)
    return WaitReason(f"{why}: {when}", tuple(f"the window of {one.of}" for one in closed))


def decide_closing(bound: Bound, at: float, grace_s: float) -> Closing | None:
    """Whether a job that runs has to end now: from `grace_s` before the first of its windows closes; None when not."""
    closed = _list_closed(bound, at, grace_s)
    return Closing(closed, find_joint_start(bound, at, grace_s)) if closed else None


def find_closing(bound: Bound, at: float, grace_s: float) -> float | None:
    """When a job that runs at `at` has to begin its end; None when that is not in sight."""
    closes = [close for one in bound if (close := find_close([one.window], at)) is not None]
    return min(closes) - grace_s if closes else None


def describe_instant(at: float, zone: str) -> str:
    """The time on the clocks of the zone, with the day of the week."""
    local = datetime.fromtimestamp(at, ZoneInfo(zone))
    return f"{DAYS[local.weekday()].capitalize()} {local:%Y-%m-%d %H:%M} {zone}"


@lru_cache(maxsize=1024)
def _find_start(bound: Bound, at: float, grace_s: float) -> float | None:
    return find_start([one.window for one in bound], at, grace_s)


def _list_closed(bound: Bound, at: float, grace_s: float) -> Bound:
    """Those that a job cannot start under now, which are those for which one that runs has to end."""
    return tuple(one for one in bound if _find_start((one,), at, grace_s) != at)


def _describe_never(closed: Bound) -> str:
    if len(closed) > 1:
        return "never, for they are not open together long enough; ask an administrator for other hours"
    return "never again; ask an administrator for other hours"
