"""Whose windows bind a job, whether it may start now, and when it has to end. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Final, Literal, NamedTuple
from zoneinfo import ZoneInfo

from starforge.contract.launch import PoolRequest
from starforge.hardware.series import FAMILIES
from starforge.said.sentence import say, say_list
from starforge_console.domain.job import QueuedJob
from starforge_console.domain.waiting import WaitReason, explain_unlimited
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


class Asker(NamedTuple):
    """What windows look at of a job: whose it is, which fleet it names, what it asks for and how long its end takes."""

    user_id: int
    fleet: str | None
    pools: tuple[PoolRequest, ...]
    grace_s: float


@dataclass(frozen=True, slots=True)
class Windows:
    """All that are in force, with the team of each user by id.

    `lost` are those whose time zone this machine has no table of any more: nobody can say when they are open.
    """

    kept: Bound = ()
    teams: Mapping[int, str | None] = field(default_factory=dict)
    lost: Bound = ()

    def bind(self, user_id: int, pools: Sequence[PoolRequest], fleet: str | None) -> Bound:
        """Those that bind a job of this user and shape, in this fleet; without one those of any fleet are left out."""
        return self._choose(self.kept, user_id, pools, fleet)

    def bind_lost(self, user_id: int, pools: Sequence[PoolRequest], fleet: str | None) -> Bound:
        """The same of those that are lost."""
        return self._choose(self.lost, user_id, pools, fleet)

    def bind_fleet(self, fleet: str) -> Bound:
        """The fleet's own."""
        return tuple(one for one in self.kept if one.of == ("fleet", fleet))

    def find_start(self, job: Asker, fleets: Collection[str], at: float) -> float | None:
        """When the job may start from `at` on, in one of these fleets where it names none; None: that does not come."""
        bound = self.bind(job.user_id, job.pools, job.fleet)
        if job.fleet is not None or not fleets:
            return find_joint_start(bound, at, job.grace_s)
        starts = [find_joint_start(bound + self.bind_fleet(fleet), at, job.grace_s) for fleet in fleets]
        return min((start for start in starts if start is not None), default=None)

    def list_lost(self, fleet: str) -> Bound:
        """The fleet's own that are lost."""
        return tuple(one for one in self.lost if one.of == ("fleet", fleet))

    def _choose(self, among: Bound, user_id: int, pools: Sequence[PoolRequest], fleet: str | None) -> Bound:
        if not among:
            return ()
        names = {WindowOf("profile", name) for name in name_profiles(pools)}
        team = self.teams.get(user_id)
        names |= {WindowOf("team", team)} if team else set()
        names |= {WindowOf("fleet", fleet)} if fleet else set()
        return tuple(one for one in among if one.of in names)


_Shape = tuple[int, tuple[PoolRequest, ...], str | None, float]
"""All that windows look at of a queued job."""
_NOWHERE: Final[Mapping[str, WaitReason]] = MappingProxyType({})


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


def explain_closed(closed: Bound, start: float | None, at: float, grace_s: float) -> WaitReason:
    """Why a job may not start under these windows, which are closed for it, and when it may.

    The text is the same for as long as the same holds, so that a job that waits is written down once.
    """
    zone = closed[0].window.zone
    when = say("window.start", at=describe_instant(start, zone)) if start is not None else say("window.never")
    closes = [one for one in closed if is_open([one.window], at)]
    if len(closes) == len(closed):
        end = min(close for one in closes if (close := find_close([one.window], at)) is not None)
        why = say("window.closing", at=describe_instant(end, zone), grace=f"{grace_s:g}", when=when)
    else:
        why = say("window.closed", when=when)
    return WaitReason(why, tuple(say_window(one.of) for one in closed))


def say_window(of: WindowOf) -> str:
    """The window, by whose it is."""
    match of.kind:
        case "fleet":
            whose = say("window.fleet", name=of.name)
        case "team":
            whose = say("window.team", name=of.name)
        case "profile":
            whose = say("window.profile", name=of.name)
    return say("window.of", whose=whose)


def explain_lost(lost: Sequence[KeptWindow]) -> WaitReason:
    """Why a job may not start under windows of which nobody can say when they are open."""
    zones = say_list("list.and", sorted({repr(one.window.zone) for one in lost}))
    return WaitReason(say("window.lost", zones=zones), tuple(say_window(one.of) for one in lost))


def list_closed(bound: Bound, at: float, grace_s: float) -> Bound:
    """Those that a job may not start under at that instant, and under which one that runs has to end."""
    return tuple(one for one in bound if _find_start((one,), at, grace_s) != at)


def find_closing(bound: Bound, at: float, grace_s: float) -> float | None:
    """When a job that runs at `at` has to begin its end; None when that is not in sight."""
    closes = [close for one in bound if (close := find_close([one.window], at)) is not None]
    return min(closes) - grace_s if closes else None


def describe_instant(at: float, zone: str) -> str:
    """The time on the clocks of the zone, and which zone that is."""
    return f"{describe_local(at, zone)} {zone}"


def describe_local(at: float, zone: str) -> str:
    """The time on the clocks of the zone, with the day of the week."""
    local = datetime.fromtimestamp(at, ZoneInfo(zone))
    return f"{DAYS[local.weekday()].capitalize()} {local:%Y-%m-%d %H:%M}"


class OpenNow:
    """What windows say of queued jobs at one moment. `fleets` are those where a job that names none may go."""

    def __init__(self, windows: Windows, fleets: Collection[str], at: float) -> None:
        self._windows = windows
        self._at = at
        self._fleets = [fleet for fleet in fleets if windows.bind_fleet(fleet) or windows.list_lost(fleet)]
        self._served = fleets
        self._held: dict[_Shape, WaitReason | None] = {}
        self._closed: dict[_Shape, dict[str, WaitReason]] = {}
        self._starts: list[float] = []

    @property
    def next_start(self) -> float | None:
        """The first time at which a job that was asked about may start and could not now."""
        return min(self._starts, default=None)

    def explain_hold(self, job: QueuedJob) -> Sequence[WaitReason]:
        """Why the job may not start, wherever there is room; empty when it may."""
        if not self._windows.kept and not self._windows.lost:
            return ()
        shape = _shape_of(job)
        lost = self._windows.bind_lost(job.user_id, job.pools, job.fleet) if self._windows.lost else ()
        if lost and shape not in self._held:
            self._held[shape] = explain_lost(lost)
        if shape not in self._held:
            asker = Asker(job.user_id, job.fleet, job.pools, job.grace_s)
            closed = list_closed(self._windows.bind(job.user_id, job.pools, job.fleet), self._at, job.grace_s)
            start = self._windows.find_start(asker, self._served, self._at) if closed else None
            self._held[shape] = self._explain(closed, start, job.grace_s) if closed else None
        held = self._held[shape]
        return () if held is None else (held,)

    def find_closed(self, job: QueuedJob) -> Mapping[str, WaitReason]:
        """The fleets where the job may not start, of those that it did not name."""
        if job.fleet is not None or not self._fleets:
            return _NOWHERE
        shape = _shape_of(job)
        if shape not in self._closed:
            self._closed[shape] = dict(self._list_closed(job))
        return self._closed[shape]

    def _list_closed(self, job: QueuedJob) -> Iterator[tuple[str, WaitReason]]:
        own = self._windows.bind(job.user_id, job.pools, None)
        for fleet in self._fleets:
            lost, bound = self._windows.list_lost(fleet), self._windows.bind_fleet(fleet)
            if lost:
                yield fleet, explain_lost(lost)
                continue
            closed = list_closed(bound, self._at, job.grace_s)
            if closed:
                start = find_joint_start(own + bound, self._at, job.grace_s)
                yield fleet, self._explain(closed, start, job.grace_s)

    def _explain(self, closed: Bound, start: float | None, grace_s: float) -> WaitReason:
        self._starts += [] if start is None else [start]
        return explain_closed(closed, start, self._at, grace_s)


class Closed:
    """Which fleets are closed for a job that names none: by their windows, or because it has no time limit."""

    def __init__(self, open_now: OpenNow, strict: Collection[str]) -> None:
        """`strict` are the fleets that take only jobs with a time limit."""
        self._open_now = open_now
        self._strict = {fleet: explain_unlimited(fleet) for fleet in strict}

    def find(self, job: QueuedJob) -> Mapping[str, WaitReason]:
        """Each such fleet with why."""
        closed = self._open_now.find_closed(job)
        if job.fleet is not None or job.lasts_s is not None:
            return closed
        return {**self._strict, **closed}


def _shape_of(job: QueuedJob) -> _Shape:
    return (job.user_id, job.pools, job.fleet, job.grace_s)


@lru_cache(maxsize=1024)
def _find_start(bound: Bound, at: float, grace_s: float) -> float | None:
    return find_start([one.window for one in bound], at, grace_s)
