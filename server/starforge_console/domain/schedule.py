"""Who of the queue starts now and where, and why every other job waits. Pure: the same snapshot, the same decisions."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from starforge.contract.executor import FleetView, NoRoom, PlacementAsk, Target
from starforge.contract.ids import AttemptId, JobId, new_attempt_id
from starforge.contract.launch import PoolRequest
from starforge_console.domain.claims import claim
from starforge_console.domain.job import QueuedJob
from starforge_console.domain.order import order_queue
from starforge_console.domain.quota import Usage, count_gpus
from starforge_console.domain.waiting import WaitReason, describe_waiting, explain_no_room, explain_unserved

Place = Callable[[PlacementAsk, FleetView], Target | NoRoom]
"""How a kind of backend places: pure."""

_Shape = tuple[str | None, int]
"""All of a job that placement looks at: its fleet, and which pools; equal ones of a queue are one object mostly."""


class Start(NamedTuple):
    """The job starts as `attempt` at `target`."""

    job: QueuedJob
    attempt: AttemptId
    target: Target


class Waits(NamedTuple):
    """The job waits for `reasons`; `text` says the same, made once for all jobs that wait for the same."""

    job: QueuedJob
    reasons: Sequence[WaitReason]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All that decides a pass, as it was at one moment.

    Attributes:
        queued: The jobs that may start now, in any order.
        views: What each fleet offers, less what is in flight.
        place: How each fleet that is served places.
        usage: What quotas limit, and what is held under them.
        faulty: Machines at whose fault a job did not start: others are preferred for it.
        explain_hold: Why a job may not start wherever there is room; empty when it may.

    """

    queued: Sequence[QueuedJob]
    views: Mapping[str, FleetView]
    place: Mapping[str, Place]
    usage: Usage = field(default_factory=Usage)
    faulty: Mapping[JobId, Collection[str]] = field(default_factory=dict)
    explain_hold: Callable[[QueuedJob], Sequence[WaitReason]] = lambda _job: ()


def decide_queue(snapshot: Snapshot) -> Iterator[Start | Waits]:
    """One decision for each queued job, in the order of the queue; what one job takes, the next does not find."""
    room = _Room(snapshot)
    for job in order_queue(snapshot.queued):
        yield room.decide(job)


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

    def decide(self, job: QueuedJob) -> Start | Waits:
        """The job's place, taken from the room, or why it waits."""
        shape = (job.fleet, id(job.pools))
        why = self._find_hold(job) or self._no_room.get(shape)
        if why is not None:
            return Waits(job, why.reasons, why.text)
        attempt = new_attempt_id(job.id, job.number)
        target = self._place(job, attempt)
        if not isinstance(target, Target):
            why = self._no_room[shape] = _Why(target, describe_waiting(target))
            return Waits(job, why.reasons, why.text)
        self._views[target.fleet] = claim(self._views[target.fleet], target.node, attempt, job.pools)
        self._usage.take(job.user_id, job.id, count_gpus(job.pools))
        return Start(job, attempt, target)

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

    def _place(self, job: QueuedJob, attempt: AttemptId) -> Target | list[WaitReason]:
        """Where the job goes, or why nowhere; to a machine that was at fault only where no other has room."""
        faulty = self._snapshot.faulty.get(job.id)
        if faulty:
            others = {name: _leave_out(view, faulty) for name, view in self._views.items()}
            target = self._find_target(job, attempt, others)
            if isinstance(target, Target):
                return target
        return self._find_target(job, attempt, self._views)

    def _find_target(
        self, job: QueuedJob, attempt: AttemptId, views: Mapping[str, FleetView]
    ) -> Target | list[WaitReason]:
        ask = _Ask(attempt=attempt, pools=job.pools)
        reasons: list[WaitReason] = []
        for fleet in [job.fleet] if job.fleet is not None else list(views):
            view, place = views.get(fleet), self._snapshot.place.get(fleet)
            if view is None or place is None:
                reasons.append(explain_unserved(fleet))
                continue
            answer = place(ask, view)
            if isinstance(answer, Target):
                return answer
            reasons += explain_no_room(view, answer)
        return reasons


def _leave_out(view: FleetView, names: Collection[str]) -> FleetView:
    return replace(view, nodes=tuple(node for node in view.nodes if node.name not in names))
