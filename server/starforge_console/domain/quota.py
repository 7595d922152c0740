"""Quotas: what a user or a team may hold at once, and whether a job may start beside what is held. Pure.

An attempt counts from the moment at which it is dequeued until it has ended, whether or not its machine answers.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from starforge.contract.launch import PoolRequest
from starforge.hardware.series import FAMILIES
from starforge.said.sentence import say, say_list
from starforge.wording import count_of
from starforge_console.domain.waiting import WaitReason

USER: Final = "user"
TEAM: Final = "team"
HolderKind = Literal["user", "team"]
_HOLDINGS_NAMED: Final = 4


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
    """What a holder may have at once; None is no limit. `series` are series and families of GPUs that it may use."""

    gpus: int | None = None
    jobs: int | None = None
    series: frozenset[str] | None = None

    def __str__(self) -> str:
        parts = [
            *([f"{count_of(self.gpus, 'GPU')} at once"] if self.gpus is not None else []),
            *([f"{count_of(self.jobs, 'job')} at once"] if self.jobs is not None else []),
            *([f"series {', '.join(sorted(self.series)) or 'none'}"] if self.series is not None else []),
        ]
        return ", ".join(parts) or "no limit"


NO_LIMIT: Final = Limit()


@dataclass(frozen=True, slots=True)
class QuotaLine:
    """One holder's limit and what the holder has now."""

    holder: Holder
    limit: Limit
    gpus: int
    jobs: int


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
    """What is held, by holder. It only grows: a new one is made of what the ledger says."""

    def __init__(self, quotas: Quotas = NOBODY_LIMITED, held: Iterable[tuple[int, str, int]] = ()) -> None:
        """`held`: user, job and GPUs of every job that holds a place now."""
        self.quotas = quotas
        self._held: dict[Holder, list[Holding]] = {}
        for user_id, job, gpus in held:
            self.take(user_id, job, gpus)

    def copy(self) -> "Usage":
        """The same use, which grows by itself."""
        copied = Usage(self.quotas)
        copied._held = {holder: list(held) for holder, held in self._held.items()}
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
            why = find_never(limit, pools) or _explain_full(limit, self.held_by(holder), gpus)
            if why:
                holds.append(WaitReason(why, (say("limit.of", holder=holder.said),)))
        return holds


def build_lines(
    limits: Mapping[Holder, Limit], members: Mapping[int, Member], held: Iterable[tuple[int, str, int]]
) -> list[QuotaLine]:
    """What each of these holders has under its limit: `held` is user, job and GPUs of every job that holds a place."""
    holdings = [(members[user_id].holders, gpus) for user_id, _, gpus in held]
    lines = []
    for holder, limit in limits.items():
        own = [gpus for holders, gpus in holdings if holder in holders]
        lines.append(QuotaLine(holder, limit, sum(own), len(own)))
    return lines


def count_gpus(pools: Sequence[PoolRequest]) -> int:
    """How many GPUs a job of these pools holds."""
    return sum(pool.nodes * pool.gpus_per_node for pool in pools)


def say_gpus(count: int) -> str:
    """So many GPUs, in words."""
    return say("count.gpu", n=1) if count == 1 else say("count.gpus", n=count)


def find_never(limit: Limit, pools: Sequence[PoolRequest]) -> str:
    """Why a job of these pools could not start under the limit even if nothing else ran; empty when it could."""
    gpus = count_gpus(pools)
    if limit.jobs == 0:
        return say("limit.no_job")
    if limit.gpus is not None and gpus > limit.gpus:
        return say("limit.too_many", gpus=say_gpus(gpus), most=limit.gpus)
    if limit.series is None:
        return ""
    allowed = ", ".join(sorted(limit.series)) or say("limit.no_series")
    for pool in pools:
        if not pool.gpus_per_node:
            continue
        if pool.series is None:
            return say("limit.any_series", allowed=allowed)
        if not _is_allowed(pool.series, limit.series):
            return say("limit.series", series=pool.series, allowed=allowed)
    return ""


def _is_allowed(asked: str, allowed: frozenset[str]) -> bool:
    """Whether every GPU that meets `asked` is allowed: of a family all of its series must be."""
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


def _name_holdings(held: Sequence[Holding]) -> str:
    largest = sorted(held, key=lambda one: (-one.gpus, one.job))
    named = [
        say("limit.holding", job=one.job, user=one.user, gpus=say_gpus(one.gpus)) for one in largest[:_HOLDINGS_NAMED]
    ]
    more = len(largest) - len(named)
    return say_list("list.semicolon", [*named, *([say("count.more", n=more)] if more > 0 else [])])
