"""Quotas: what a user or a team may hold and use, and whether a job may start beside that. Pure.

An attempt counts from the moment at which it is dequeued until it has ended, whether or not its machine answers.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from starforge.contract.launch import PoolRequest
from starforge.hardware.series import FAMILIES
from starforge.said.sentence import say, say_list
from starforge.wording import count_of, describe_bytes
from starforge_console.domain.gpu_hours import HOUR_S, Span, find_room_at, measure_all
from starforge_console.domain.opening import ANY, CPU
from starforge_console.domain.waiting import WaitReason

USER: Final = "user"
TEAM: Final = "team"
HolderKind = Literal["user", "team"]
_HOLDINGS_NAMED: Final = 4
_MINUTE_S: Final = 60.0
GIB: Final = 1 << 30
_STEPS_H: Final = ((100.0, 0.1), (1000.0, 1.0), (math.inf, 10.0))
"""How finely used hours are told: below a limit of so many, in steps of so many, about a hundredth of the limit."""


class Holder(NamedTuple):
    """Whose limit it is."""

    kind: HolderKind
    name: str

    def __str__(self) -> str:
        return self.said

    @property
    def said(self) -> str:
        """The holder in words."""
        return say("holder.user", name=self.name) if self.kind == "user" else say("holder.team", name=self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """What a holder may have; None is no limit.

    `gpus` and `jobs` are had at once, `gpu_hours` used in 24 hours, `storage_gib` is what all jobs hold on the storage;
    `series` are series and families of GPUs that may be used, `profiles` what may be asked for, by name.
    """

    gpus: int | None = None
    jobs: int | None = None
    series: frozenset[str] | None = None
    gpu_hours: int | None = None
    storage_gib: int | None = None
    profiles: frozenset[str] | None = None

    def __str__(self) -> str:
        parts = [
            *([f"{count_of(self.gpus, 'GPU')} at once"] if self.gpus is not None else []),
            *([f"{count_of(self.jobs, 'job')} at once"] if self.jobs is not None else []),
            *([f"{count_of(self.gpu_hours, 'GPU-hour')} in 24 hours"] if self.gpu_hours is not None else []),
            *([f"{self.storage_gib} GiB of storage"] if self.storage_gib is not None else []),
            *([f"series {', '.join(sorted(self.series)) or 'none'}"] if self.series is not None else []),
            *([f"profiles {', '.join(sorted(self.profiles)) or 'none'}"] if self.profiles is not None else []),
        ]
        return ", ".join(parts) or "no limit"


NO_LIMIT: Final = Limit()


class Member(NamedTuple):
    """A user with the team that the user belongs to."""

    user: str
    team: str | None

    @property
    def holders(self) -> tuple[Holder, ...]:
        """Whose limits bind this user's jobs."""
        return (Holder("user", self.user), *([Holder("team", self.team)] if self.team else []))


class Holding(NamedTuple):
    """One job that holds a place."""

    job: str
    user: str
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    """Every limit, and every user by id."""

    limits: Mapping[Holder, Limit] = field(default_factory=dict)
    members: Mapping[int, Member] = field(default_factory=dict)

    def list_limits(self, user_id: int) -> list[tuple[Holder, Limit]]:
        """The limits that bind a job of this user."""
        member = self.members.get(user_id)
        if member is None or not self.limits:
            return []
        return [(holder, self.limits[holder]) for holder in member.holders if holder in self.limits]


NOBODY_LIMITED: Final = Quotas()


class Usage:
    """What is held and used, by holder. It only grows: a new one is made of what the ledger says."""

    def __init__(
        self,
        quotas: Quotas = NOBODY_LIMITED,
        held: Iterable[tuple[int, str, int]] = (),
        *,
        spans: Iterable[Span] = (),
        stored: Mapping[int, int] = MappingProxyType({}),
        now: float = 0.0,
    ) -> None:
        """What there is at `now`.

        Args:
            quotas: The limits.
            held: User, job and GPUs of every job that holds a place.
            spans: The GPUs of the last 24 hours of every user whose hours are limited.
            stored: The bytes on the storage of every user whose storage is limited, by user.
            now: Unix seconds.

        """
        self.quotas = quotas
        self._held: dict[Holder, list[Holding]] = {}
        for user_id, job, gpus in held:
            self.take(user_id, job, gpus)
        # A start uses no hours yet: whether there is room for one is known from the beginning.
        self._hours_over = _find_hours_over(quotas, list(spans), now)
        self._storage_over = _find_storage_over(quotas, stored)

    def __eq__(self, other: object) -> bool:
        """Whether the same is held and used under the same limits."""
        return isinstance(other, Usage) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]  # it grows

    def copy(self) -> "Usage":
        """The same use, which grows by itself."""
        copied = Usage(self.quotas)
        copied._held = {holder: list(held) for holder, held in self._held.items()}
        copied._hours_over, copied._storage_over = self._hours_over, self._storage_over
        return copied

    def take(self, user_id: int, job: str, gpus: int) -> None:
        """Count a job of this user that holds so many GPUs from now on."""
        member = self.quotas.members.get(user_id)
        for holder in member.holders if member else ():
            if holder in self.quotas.limits:
                self._held.setdefault(holder, []).append(Holding(job, member.user if member else "", gpus))

    def held_by(self, holder: Holder) -> Sequence[Holding]:
        """The jobs that count for a holder with a limit."""
        return self._held.get(holder, ())

    def find_holds(self, user_id: int, pools: Sequence[PoolRequest]) -> list[WaitReason]:
        """Every limit that keeps a job of this user and shape from starting now; empty when it may start."""
        limits = self.quotas.list_limits(user_id)
        gpus, holds = count_gpus(pools) if limits else 0, []
        for holder, limit in limits:
            never = find_never(limit, pools)
            full = [
                _explain_full(limit, self.held_by(holder), gpus),
                self._hours_over.get(holder, "") if gpus else "",
                self._storage_over.get(holder, ""),
            ]
            whose = (say("limit.of", holder=holder.said),)
            holds += [WaitReason(why, whose) for why in ([never] if never else filter(None, full))]
        return holds


def count_gpus(pools: Sequence[PoolRequest]) -> int:
    """How many GPUs a job of these pools holds."""
    return sum(pool.nodes * pool.gpus_per_node for pool in pools)


def say_gpus(count: int) -> str:
    """So many GPUs, in words."""
    return say("count.gpu", n=1) if count == 1 else say("count.gpus", n=count)


def say_hours(count: int) -> str:
    """So many GPU-hours, in words."""
    return say("count.gpu_hour", n=1) if count == 1 else say("count.gpu_hours", n=count)


def find_never(limit: Limit, pools: Sequence[PoolRequest]) -> str:
    """Why a job of these pools could not start under the limit even if nothing else ran; empty when it could."""
    gpus = count_gpus(pools)
    if limit.jobs == 0:
        return say("limit.no_job")
    if limit.gpus is not None and gpus > limit.gpus:
        return say("limit.too_many", gpus=say_gpus(gpus), most=limit.gpus)
    if limit.gpu_hours == 0 and gpus:
        return say("limit.no_hours")
    if limit.storage_gib == 0:
        return say("limit.no_storage")
    unlisted = "" if limit.profiles is None else _find_unlisted(limit.profiles, pools)
    if unlisted:
        return unlisted
    return "" if limit.series is None else _find_forbidden(limit.series, pools)


def _find_unlisted(profiles: frozenset[str], pools: Sequence[PoolRequest]) -> str:
    """Which profile that is asked for is not among those that may be; empty when all of them are."""
    for pool in pools:
        asked = CPU if not pool.gpus_per_node else pool.series or ANY
        if not _is_allowed(asked, profiles):
            allowed = ", ".join(sorted(profiles)) or say("limit.no_profiles")
            return say("limit.profile", profile=asked, allowed=allowed)
    return ""


def _find_forbidden(series: frozenset[str], pools: Sequence[PoolRequest]) -> str:
    """Why GPUs that are asked for are not among those that may be; empty when all of them are."""
    allowed = ", ".join(sorted(series)) or say("limit.no_series")
    for pool in pools:
        if not pool.gpus_per_node:
            continue
        if pool.series is None:
            return say("limit.any_series", allowed=allowed)
        if not _is_allowed(pool.series, series):
            return say("limit.series", series=pool.series, allowed=allowed)
    return ""


def _is_allowed(asked: str, allowed: frozenset[str]) -> bool:
    """Whether all that meets `asked` is allowed: of a family all of its series must be."""
    members = {one for name in allowed for one in (name, *FAMILIES.get(name, ()))}
    return asked in members or (asked in FAMILIES and FAMILIES[asked] - {asked} <= members)


def _explain_full(limit: Limit, held: Sequence[Holding], gpus: int) -> str:
    in_use = sum(one.gpus for one in held)
    if limit.gpus is not None and gpus and in_use + gpus > limit.gpus:
        short = in_use + gpus - limit.gpus
        who = _name_holdings([one for one in held if one.gpus])
        facts: dict[str, str | int] = {"used": in_use, "limit": say_gpus(limit.gpus), "who": who, "asked": gpus}
        return say("limit.gpus_one", **facts) if short == 1 else say("limit.gpus", **facts, short=short)
    if limit.jobs is not None and len(held) >= limit.jobs:
        most = say("count.job", n=1) if limit.jobs == 1 else say("count.jobs", n=limit.jobs)
        short = len(held) - limit.jobs + 1
        return say("limit.jobs", n=len(held), limit=most, who=_name_holdings(held), short=short)
    return ""


def _find_hours_over(quotas: Quotas, spans: Sequence[Span], now: float) -> dict[Holder, str]:
    """Why each holder whose hours are used up may use no GPU now."""
    limits = {holder: limit.gpu_hours for holder, limit in quotas.limits.items() if limit.gpu_hours is not None}
    by_holder: dict[Holder, list[Span]] = {}
    for span in spans if limits else ():
        member = quotas.members.get(span.user_id)
        for holder in member.holders if member else ():
            if holder in limits:
                by_holder.setdefault(holder, []).append(span)
    over = {holder: _explain_hours(quotas, held, limits[holder], now) for holder, held in by_holder.items()}
    return {holder: why for holder, why in over.items() if why}


def _explain_hours(quotas: Quotas, spans: Sequence[Span], most: int, now: float) -> str:
    used = measure_all(spans, now) / HOUR_S
    if used < most:
        return ""
    # Jobs that wait keep this text: it is not to change with every second that something runs.
    step = next(step for bound, step in _STEPS_H if most < bound)
    over = math.floor((used - most) / step)
    facts = {"used": f"{most + over * step:.10g}", "limit": say_hours(most)}
    at = find_room_at(spans, most * HOUR_S, now)
    if at is None:
        running = [Holding(one.job, quotas.members[one.user_id].user, one.gpus) for one in spans if one.until is None]
        return say("limit.hours_running", **facts, who=_name_holdings(running))
    minute = math.ceil(round(at) / _MINUTE_S) * _MINUTE_S
    free = f"{(over + 1) * step:.10g}"
    return say("limit.hours", **facts, over=free, at=f"{datetime.fromtimestamp(minute, UTC):%H:%M}")


def _find_storage_over(quotas: Quotas, stored: Mapping[int, int]) -> dict[Holder, str]:
    """Why no job of each holder whose storage is used up may start now."""
    held: dict[Holder, int] = {}
    for user, held_bytes in stored.items():
        member = quotas.members.get(user)
        for holder in member.holders if member else ():
            held[holder] = held.get(holder, 0) + held_bytes
    over = {holder: _explain_storage(limit, held.get(holder, 0)) for holder, limit in quotas.limits.items()}
    return {holder: why for holder, why in over.items() if why}


def _explain_storage(limit: Limit, held_bytes: int) -> str:
    if limit.storage_gib is None or held_bytes < limit.storage_gib * GIB:
        return ""
    over = describe_bytes(held_bytes - limit.storage_gib * GIB + 1)
    return say("limit.storage", used=describe_bytes(held_bytes), limit=f"{limit.storage_gib} GiB", over=over)


def _name_holdings(held: Sequence[Holding]) -> str:
    largest = sorted(held, key=lambda one: (-one.gpus, one.job))
    named = [
        say("limit.holding", job=one.job, user=one.user, gpus=say_gpus(one.gpus)) for one in largest[:_HOLDINGS_NAMED]
    ]
    more = len(largest) - len(named)
    return say_list("list.semicolon", [*named, *([say("count.more", n=more)] if more > 0 else [])])
