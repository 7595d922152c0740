"""Who of the queue starts now and where, and why every other job waits. Pure: the same snapshot, the same decisions."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import NamedTuple

from starforge.contract.executor import FleetView, NoRoom, Target
from starforge.contract.ids import AttemptId, JobId, new_attempt_id
from starforge.contract.launch import PoolRequest
from starforge.said.sentence import say
from starforge.wording import is_in_calendar
from starforge_console.domain.claims import claim
from starforge_console.domain.fair_share import Share
from starforge_console.domain.job import QueuedJob
from starforge_console.domain.order import order_queue
from starforge_console.domain.quota import Usage, count_gpus
from starforge_console.domain.reservation import (
    PASSED_AT_MOST,
    FleetReservations,
    Head,
    Place,
    Release,
)
from starforge_console.domain.waiting import WaitReason, describe_waiting, explain_nowhere, explain_unserved

# Equal pools and inputs of a queue are one object mostly. They are told apart by `id`, which costs less than to compare
# them, and which nothing else gets as long as the pass holds the jobs; of equal ones that are two, each is decided on.
_Shape = tuple[str | None, int, float | None, frozenset[str]]
"""What decides a job's place: its fleet, which pools, its time limit where fleets require one, and the fleets that are
closed for it."""

_Kind = tuple[int, str | None, int, int, float, float | None]
"""What makes jobs wait alike: user, fleet, which pools and inputs, grace and time limit. A rule that looks at anything
else of a job belongs here, or jobs wait for what holds another one."""


class Start(NamedTuple):
    """The job starts as `attempt` at `target`; `passed` are jobs before it that found no room there."""

    job: QueuedJob
    attempt: AttemptId
    target: Target
    passed: tuple[QueuedJob, ...] = ()


class Waits(NamedTuple):
    """The job waits for `reasons`; `text` says the same, made once for all jobs that wait for the same."""

    job: QueuedJob
    reasons: Sequence[WaitReason]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All that decides a pass, as it was at one moment. `starforge_console.scheduler.rest` compares each part of it.

    Attributes:
        queued: The jobs that may start now, in any order.
        views: What each fleet offers, less what is in flight.
        place: How each fleet that is served places.
        now: Unix seconds.
        shares: What users have used of late; one who is missing has used nothing.
        releases: Of each fleet whose jobs all have time limits: by when they end, in that order.
        usage: What quotas limit, and what is held under them.
        faulty: Machines that ended an earlier attempt of a job: others are preferred for it.
        name_attempt: Makes the id of a job's attempt with this number.
        explain_hold: Why a job may not start wherever there is room; empty when it may. It looks at no more of a job
            than user, fleet, pools, inputs, grace and time limit: jobs that are alike in these wait alike.
        find_closed: The fleets, of those that a job does not name, where it may not start now; likewise.

    """

    queued: Sequence[QueuedJob]
    views: Mapping[str, FleetView]
    place: Mapping[str, Place]
    now: float = 0.0
    shares: Mapping[int, Share] = field(default_factory=dict)
    releases: Mapping[str, Sequence[Release]] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    faulty: Mapping[JobId, Collection[str]] = field(default_factory=dict)
    name_attempt: Callable[[JobId, int], AttemptId] = new_attempt_id
    explain_hold: Callable[[QueuedJob], Sequence[WaitReason]] = lambda _job: ()
    find_closed: Callable[[QueuedJob], Mapping[str, WaitReason]] = lambda _job: {}


def decide_queue(snapshot: Snapshot) -> Iterator[Start | Waits]:
    """One decision for each queued job, in the order of the queue; what one job takes, the next does not find."""
    room = _Room(snapshot)
    for job in order_queue(snapshot.queued, snapshot.shares):
        yield room.decide(job)


class NodeWhy(NamedTuple):
    """The first rule that keeps a job from a machine; without a machine, from all of the fleet's."""

    fleet: str
    node: str
    why: str


class Explained(NamedTuple):
    """What becomes of a job in a pass, and why each machine that it may go to does not take it."""

    decision: Start | Waits
    nodes: list[NodeWhy]


def explain_queued(snapshot: Snapshot, job: QueuedJob) -> Explained:
    """What a pass would decide on `job`, which is one of those queued, once all before it have what they take."""
    room = _Room(snapshot)
    ranked = order_queue(snapshot.queued, snapshot.shares)
    for before in ranked[: ranked.index(job)]:
        room.decide(before)
    nodes = room.list_nodes(job)
    return Explained(room.decide(job), nodes)


def find_starts(snapshot: Snapshot, wished: Sequence[QueuedJob]) -> list[Target | None]:
    """Where each of `wished` would start if it alone were queued too; None where it would wait.

    All of them stand at one place of the queue: they have one user, priority and age.
    """
    if not wished:
        return []
    ranked = order_queue([*snapshot.queued, wished[0]], snapshot.shares)
    room = _Room(snapshot)
    for job in ranked[: ranked.index(wished[0])]:
        room.decide(job)
    return [room.find_start(job) for job in wished]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ask:
    attempt: AttemptId
    pools: tuple[PoolRequest, ...]


class _Why(NamedTuple):
    reasons: Sequence[WaitReason]
    text: str


class _Room:
    """What a pass gives away. It only takes: what held one job, or had no room for it, does so for its like later."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._views = dict(snapshot.views)
        self._usage = snapshot.usage.copy()
        self._held: dict[tuple[int, int], _Why] = {}
        self._no_room: dict[_Shape, _Why] = {}
        self._waiting: dict[_Kind, _Why] = {}
        self._passed: dict[JobId, int] = {}
        self._promises = {
            fleet: FleetReservations(place, _copy(snapshot.releases.get(fleet)))
            for fleet, place in snapshot.place.items()
        }

    def decide(self, job: QueuedJob) -> Start | Waits:
        """The job's place, taken from the room, or why it waits."""
        # In a long queue nearly every job waits for what one before it waits for: only the first of a kind costs.
        kind = (job.user_id, job.fleet, id(job.pools), id(job.inputs), job.grace_s, job.lasts_s)
        why = self._waiting.get(kind)
        if why is not None:
            return Waits(job, why.reasons, why.text)
        decision, why = self._decide_first(job)
        if why is not None:
            self._waiting[kind] = why
        return decision

    def _decide_first(self, job: QueuedJob) -> tuple[Start | Waits, _Why | None]:
        """The same for the first of its kind that waits, and what others of its kind wait for."""
        lasts_s = job.lasts_s if self._snapshot.releases else None
        shape = (job.fleet, id(job.pools), lasts_s, frozenset(self._snapshot.find_closed(job)))
        why = self._find_hold(job) or self._no_room.get(shape)
        if why is not None:
            return Waits(job, why.reasons, why.text), why
        ask = self._ask(job)
        target = self._place(job, ask)
        if isinstance(target, Target):
            return self._start(job, ask, target), None
        own = self._promise(job, ask)
        why = self._no_room[shape] = _Why(target, describe_waiting(target))
        if own:
            target = [*target, own]
            return Waits(job, target, describe_waiting(target)), why
        return Waits(job, why.reasons, why.text), why

    def list_nodes(self, job: QueuedJob) -> list[NodeWhy]:
        """Why machines do not take the job, each with its first reason; nothing is taken."""
        ask, closed = self._ask(job), self._snapshot.find_closed(job)
        found = [NodeWhy(fleet, "", why.reason) for fleet, why in closed.items()]
        for fleet in self._fleets_of(job, self._views):
            view, place = self._views.get(fleet), self._snapshot.place.get(fleet)
            if view is None or place is None:
                found.append(NodeWhy(fleet, "", explain_unserved(fleet).reason))
                continue
            answer, view = self._answer_in(job, ask, view, place)
            if isinstance(answer, NoRoom):
                whys = answer.per_node.items() if view.nodes else [("", view.why_not or "no machine")]
                found += [NodeWhy(fleet, node, why) for node, why in whys]
        return found

    def find_start(self, job: QueuedJob) -> Target | None:
        """Where the job would start now; nothing is taken."""
        target = None if self._find_hold(job) else self._place(job, self._ask(job))
        return target if isinstance(target, Target) else None

    def _ask(self, job: QueuedJob) -> _Ask:
        return _Ask(attempt=self._snapshot.name_attempt(job.id, job.number), pools=job.pools)

    def _start(self, job: QueuedJob, ask: _Ask, target: Target) -> Start:
        fleet, view = target.fleet, self._views[target.fleet]
        passed = self._promises[fleet].list_passed(ask, view, target.node)
        self._views[fleet] = claim(view, target, ask.attempt, job.pools)
        self._promises[fleet].note_start(target.node, ask.attempt, self._end_of(job))
        self._usage.take(job.user_id, job.id, count_gpus(job.pools))
        for head in passed:
            self._passed[head.job.id] = self._count_passed(head.job) + 1
            self._keep(fleet, head)
        return Start(job, ask.attempt, target, tuple(head.job for head in passed))

    def _count_passed(self, job: QueuedJob) -> int:
        return self._passed.get(job.id, job.passed)

    def _keep(self, fleet: str, head: Head) -> bool:
        """Let the head's machine take nothing else, if it was passed often enough."""
        times = self._count_passed(head.job)
        if times < PASSED_AT_MOST:
            return False
        why = say("wait.kept_passed", job=head.job.id, n=times)
        self._views[fleet] = _close(self._views[fleet], head.node, why)
        return True

    def _find_hold(self, job: QueuedJob) -> _Why | None:
        """What keeps the job from starting wherever there is room: its owners' quotas, inputs that are not here."""
        full = self._find_full(job)
        held = self._snapshot.explain_hold(job)
        if not held:
            return full
        reasons = [*(full.reasons if full else ()), *held]
        return _Why(reasons, describe_waiting(reasons))

    def _find_full(self, job: QueuedJob) -> _Why | None:
        kind = (job.user_id, id(job.pools))
        if kind not in self._held:
            holds = self._usage.find_holds(job.user_id, job.pools)
            if not holds:
                return None
            self._held[kind] = _Why(holds, describe_waiting(holds))
        return self._held[kind]

    def _place(self, job: QueuedJob, ask: _Ask) -> Target | list[WaitReason]:
        """Where the job goes, or why nowhere; to a machine that ended it before only where no other has room."""
        faulty = self._snapshot.faulty.get(job.id)
        if faulty:
            others = {name: _leave_out(view, faulty) for name, view in self._views.items()}
            target = self._find_target(job, ask, others)
            if isinstance(target, Target):
                return target
        return self._find_target(job, ask, self._views)

    def _find_target(self, job: QueuedJob, ask: _Ask, views: Mapping[str, FleetView]) -> Target | list[WaitReason]:
        reasons = list(self._snapshot.find_closed(job).values())
        answers: list[tuple[FleetView, NoRoom]] = []
        for fleet in self._fleets_of(job, views):
            view, place = views.get(fleet), self._snapshot.place.get(fleet)
            if view is None or place is None:
                reasons.append(explain_unserved(fleet))
                continue
            answer, open_view = self._answer_in(job, ask, view, place)
            if isinstance(answer, Target):
                return answer
            answers.append((open_view, answer))
        return explain_nowhere(reasons, answers)

    def _answer_in(self, job: QueuedJob, ask: _Ask, view: FleetView, place: Place) -> tuple[Target | NoRoom, FleetView]:
        """The job's place in this fleet, where it delays none that was promised a start, or why it has none.

        Beside it stands the view without the machines that are kept for others.
        """
        while True:
            answer = place(ask, view)
            if isinstance(answer, NoRoom):
                return answer, view
            # Of the whole fleet: a machine that is left out here may be the one that was promised.
            after = claim(self._views[view.fleet], answer, ask.attempt, job.pools)
            promises = self._promises[view.fleet]
            delayed = promises.find_delayed(after, answer.node, ask.attempt, self._end_of(job))
            if delayed is None:
                return answer, view
            why = say("wait.kept_delayed", job=delayed.job.id)
            view = _close(view, answer.node, why)

    def _promise(self, job: QueuedJob, ask: _Ask) -> WaitReason | None:
        """Let the job that found no room be passed no more than it must; gives what it is promised."""
        for fleet in self._fleets_of(job, self._views):
            view, promises = self._views.get(fleet), self._promises.get(fleet)
            if view is None or promises is None:
                continue
            head = promises.promise(ask, job, view)
            if head is None:
                continue
            if head.at is not None:
                return _describe_promise(head, head.at, fleet)
            if self._keep(fleet, head):
                return WaitReason(say("wait.takes_no_other"), (head.node,))
        return None

    def _fleets_of(self, job: QueuedJob, views: Mapping[str, FleetView]) -> list[str]:
        closed = self._snapshot.find_closed(job)
        return [job.fleet] if job.fleet is not None else [fleet for fleet in views if fleet not in closed]

    def _end_of(self, job: QueuedJob) -> float:
        return math.inf if job.lasts_s is None else self._snapshot.now + job.lasts_s


def _copy(releases: Sequence[Release] | None) -> list[Release] | None:
    return None if releases is None else list(releases)


def _describe_promise(head: Head, at: float, fleet: str) -> WaitReason | None:
    """What the job is told of it; nothing of a time that no calendar has, for a time limit may be that long."""
    if not is_in_calendar(at):
        return None
    # To the minute, as it is told: a bound that moves by seconds is not written down anew.
    by = datetime.fromtimestamp(at, UTC).replace(second=0, microsecond=0)
    promised = say("wait.promised", at=f"{by:%Y-%m-%d %H:%M}")
    return WaitReason(promised, (f"{fleet}/{head.node}",), starts_by=by.timestamp())


def _close(view: FleetView, name: str, why: str) -> FleetView:
    nodes = tuple(replace(node, accepts=False, why_not=why) if node.name == name else node for node in view.nodes)
    return replace(view, nodes=nodes)


def _leave_out(view: FleetView, names: Collection[str]) -> FleetView:
    return replace(view, nodes=tuple(node for node in view.nodes if node.name not in names))
