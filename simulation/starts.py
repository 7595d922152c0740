"""A judge of starts: looks at the ledger in the transaction in which an attempt begins there, by rules of its own.

Reservations are judged in passes that nobody disturbs: beside other loops the ledger is not what was decided by.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from sqlalchemy import Connection, select

from simulation.clocks import VirtualClock
from simulation.rules import FLEET, Asks, Rules
from starforge.contract.executor import FleetView, GpuState
from starforge.contract.ids import AttemptId, JobId, job_of
from starforge_console.domain.claims import UNKNOWN_HOLDER
from starforge_console.domain.quota import Holder
from starforge_console.domain.reservation import PASSED_AT_MOST, Release, list_releases
from starforge_console.domain.retry import decide_hold
from starforge_console.ledger.holding import COUNTED, HOLDING
from starforge_console.ledger.in_flight import list_in_flight
from starforge_console.ledger.queue import list_queued
from starforge_console.ledger.queue_order import list_places
from starforge_console.ledger.tables import attempts, jobs, users

_MANY: Final = 1_000


class _Holds(NamedTuple):
    job: str
    asks: Asks
    holds_a_place: bool


class _Waits(NamedTuple):
    """A job that found no room, in the order of the queue."""

    job: JobId
    gpus: int
    passed: int


class _Start(NamedTuple):
    attempt: AttemptId
    node: str
    gpus: int


class _Head(NamedTuple):
    """The first of a pass who found no room.

    `bound` says by when it starts where that is known; elsewhere it has been passed so many times, and would have room
    on the machines `able` once they are empty.
    """

    job: JobId
    gpus: int
    passed: int
    bound: float | None
    able: frozenset[str]


@dataclass(slots=True)
class StartJudge:
    """Judges every start; `fouls` is what may not have happened."""

    rules: Rules
    clock: VirtualClock
    is_alone: bool = False
    fouls: list[str] = field(default_factory=list)
    begun: dict[AttemptId, float] = field(default_factory=dict)
    """When each attempt began, by the clock that nobody sets."""
    _view: FleetView | None = None
    _starts: list[_Start] = field(default_factory=list)
    _passing: list[_Start] = field(default_factory=list)
    _head: _Head | None = None
    _ahead: Sequence[_Waits] = ()
    _is_new: bool = False

    def begin_pass(self, views: Sequence[FleetView]) -> None:
        """A pass decides by these views."""
        self._view = next((view for view in views if view.fleet == FLEET), None)
        self._starts, self._passing, self._head = [], [], None

    def before(self, connection: Connection, attempt: AttemptId) -> None:
        """Remember who waits before the job that is about to start."""
        self._is_new = connection.execute(select(attempts.c.id).where(attempts.c.id == attempt)).first() is None
        self._ahead = self._list_ahead(connection, job_of(attempt)) if self.is_alone else ()

    def after(self, connection: Connection, attempt: AttemptId) -> None:
        """Judge the start."""
        row = connection.execute(
            select(jobs.c.id, jobs.c.gpus, users.c.name, attempts.c.node)
            .join(attempts, attempts.c.job_id == jobs.c.id)
            .join(users, users.c.id == jobs.c.user_id)
            .where(attempts.c.id == attempt)
        ).first()
        if row is None or not self._is_new:
            return
        self.begun[attempt] = self.clock.monotonic()
        asks = Asks(row.name, row.gpus)
        if self.rules.in_maintenance:
            self.fouls.append(f"{row.id} was started during a maintenance")
        if row.node in self.rules.drained:
            self.fouls.append(f"{row.id} was started on {row.node}, which is drained")
        if self.rules.is_closed(asks, self.clock.now()):
            self.fouls.append(f"{row.id} was started while its window is closed")
        for holder in self._list_exceeded(self._load_holding(connection), asks):
            self.fouls.append(f"{row.id} was started over the quota of {holder.kind} {holder.name}")
        self._starts.append(_Start(attempt, row.node, row.gpus))
        if self.is_alone and row.gpus:
            self._judge_reservation(connection, JobId(row.id))

    def _load_holding(self, connection: Connection) -> list[_Holds]:
        rows = connection.execute(
            select(jobs.c.id, jobs.c.state, jobs.c.gpus, users.c.name)
            .join(users, users.c.id == jobs.c.user_id)
            .where(jobs.c.state.in_(COUNTED))
        ).all()
        return [_Holds(row.id, Asks(row.name, row.gpus), row.state in HOLDING) for row in rows]

    def _list_exceeded(self, held: Sequence[_Holds], asks: Asks) -> list[Holder]:
        """The holders who have more than they may, now that a job which asks so has a place."""
        exceeded = []
        for holder, limit in self.rules.list_limits(asks.user):
            mine = [one for one in held if holder in self._holders(one.asks.user)]
            gpus = sum(one.asks.gpus for one in mine if one.holds_a_place)
            # Somebody may be paused beside a pass, which nobody can foresee.
            count = sum(one.holds_a_place or self.is_alone for one in mine)
            over_gpus = limit.gpus is not None and asks.gpus and gpus > limit.gpus
            if over_gpus or (limit.jobs is not None and count > limit.jobs):
                exceeded.append(holder)
        return exceeded

    def _holders(self, user: str) -> Collection[Holder]:
        return [holder for holder, _ in self.rules.list_limits(user)]

    def _list_ahead(self, connection: Connection, job: JobId) -> list[_Waits]:
        """The jobs before this one that ask for GPUs and that nothing but room keeps from starting."""
        order = [place.job for place in list_places(connection, _MANY)]
        if job not in order:
            return []
        held, now = self._load_holding(connection), self.clock.now()
        queued = {one.id: one for one in list_queued(connection)}
        names = {row.id: row.name for row in connection.execute(select(users.c.id, users.c.name)).all()}
        ahead = []
        for name in order[: order.index(job)]:
            one = queued[JobId(name)]
            asks = Asks(names[one.user_id], sum(pool.gpus_per_node for pool in one.pools))
            full = self._list_exceeded([*held, _Holds(name, asks, holds_a_place=True)], asks)
            if asks.gpus and not full and decide_hold(one, now) <= now and not self.rules.is_closed(asks, now):
                ahead.append(_Waits(one.id, asks.gpus, one.passed))
        return ahead

    def _judge_reservation(self, connection: Connection, job: JobId) -> None:
        """The first who waits does not wait longer for it, or is not passed for ever where nothing bounds its wait."""
        if self._view is None:
            return
        releases = list_releases(list_in_flight(connection), FLEET, self.clock.now())
        if self._head is None:
            self._head = self._find_head(releases, job)
        if self._head is None:
            return
        head = self._head
        self._passing.append(self._starts[-1])
        after = _Room.of(self._view, self._starts)
        if head.bound is not None:
            later = after.find_start(head.gpus, releases)
            if later is None or later > head.bound:
                self.fouls.append(f"{job} was started and delays {head.job}, which was to start before")
            return
        too_often = self._passing[max(0, PASSED_AT_MOST - head.passed) :]
        if too_often and head.able <= {start.node for start in too_often}:
            times = head.passed + len(self._passing) - 1
            self.fouls.append(f"{job} was started before {head.job}, which was passed {times} times")

    def _find_head(self, releases: Sequence[Release], job: JobId) -> _Head | None:
        """The first who waits and can hope for a place, as it was before the last start; nobody with room waits."""
        if self._view is None:
            return None
        room = _Room.of(self._view, self._starts[:-1])
        for one in self._ahead:
            if room.fits(one.gpus):
                self.fouls.append(f"{job} was started before {one.job}, for which there was room")
                return None
            bound = room.find_start(one.gpus, releases) if self.rules.is_strict else None
            able = room.list_able(one.gpus)
            if bound is not None or able:
                return _Head(one.job, one.gpus, one.passed, bound, frozenset(able))
        return None


@dataclass(slots=True)
class _Room:
    """GPUs of each machine that takes jobs: how many are free, and how many each attempt has."""

    free: dict[str, int]
    held: dict[str, dict[AttemptId, int]]

    @classmethod
    def of(cls, view: FleetView, starts: Iterable[_Start]) -> "_Room":
        """What the view shows, less what was started since."""
        free: dict[str, int] = {}
        held: dict[str, dict[AttemptId, int]] = {}
        for node in view.nodes:
            if not node.accepts:
                continue
            free[node.name] = sum(gpu.state is GpuState.FREE for gpu in node.gpus)
            mine = held.setdefault(node.name, {})
            for gpu in node.gpus:
                if gpu.state is GpuState.HELD and gpu.attempt is not None and gpu.why != UNKNOWN_HOLDER:
                    mine[gpu.attempt] = mine.get(gpu.attempt, 0) + 1
        for start in starts:
            if start.node in free:
                free[start.node] -= start.gpus
                held[start.node][start.attempt] = start.gpus
        return cls(free, held)

    def fits(self, gpus: int) -> bool:
        """Whether a job that asks for so many finds them on one machine."""
        return any(free >= gpus for free in self.free.values())

    def list_able(self, gpus: int) -> set[str]:
        """The machines that would have so many if all of this console's jobs there ended."""
        return {name for name, free in self.free.items() if free + sum(self.held[name].values()) >= gpus}

    def find_start(self, gpus: int, releases: Sequence[Release]) -> float | None:
        """By when so many are free on one machine, given when attempts end; None where they are not for all that."""
        free = dict(self.free)
        for release in releases:
            if release.node not in free:
                continue
            free[release.node] += self.held[release.node].get(release.attempt, 0)
            if free[release.node] >= gpus:
                return release.at
        return None
