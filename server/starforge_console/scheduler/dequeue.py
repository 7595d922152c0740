"""Dequeue: brings failed jobs back when their time has come, places queued ones, and has them launched."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from starforge.contract.executor import FleetView, Target
from starforge.contract.ids import AttemptId, JobId, new_attempt_id
from starforge.contract.launch import PoolRequest
from starforge.contract.states import Reason
from starforge_console.domain.claims import claim, claim_targets
from starforge_console.domain.job import JobInFlight, QueuedJob
from starforge_console.domain.order import order_queue
from starforge_console.domain.quota import Usage, count_gpus
from starforge_console.domain.retry import decide_hold
from starforge_console.domain.tokens import hash_token
from starforge_console.domain.waiting import WaitReason, describe_waiting, explain_no_room, explain_unserved
from starforge_console.ledger.in_flight import list_in_flight
from starforge_console.ledger.moves import JobRef, move
from starforge_console.ledger.queue import (
    NewAttempt,
    dequeue,
    list_due_retries,
    list_faulty_nodes,
    list_queued,
    note_waiting,
)
from starforge_console.ledger.quotas import load_usage
from starforge_console.scheduler.deps import SchedulerDeps
from starforge_console.scheduler.launch import LAUNCH_LEASE_S, Launcher
from starforge_console.scheduler.looks import Looks
from starforge_console.wakeups import job_topic

TOKEN_LIFE_S: Final = 400 * 24 * 3600.0
"""An attempt's token lives until its end (then one hour more); this only bounds what is forgotten."""
FAULT_KNOWN_S: Final = 600.0
"""How long a job that a machine could not start prefers others; a mended machine gets it back then."""
_BEGUN_AT_ONCE: Final = 32
_NOTES_AT_ONCE: Final = 500
"""A long queue's notes leave other writers their turn."""

_Shape = tuple[str | None, int]
"""All of a job that placement looks at: its fleet, and which pools; equal ones of a queue are one object mostly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ask:
    attempt: AttemptId
    pools: tuple[PoolRequest, ...]


@dataclass(frozen=True, slots=True)
class _Placed:
    job: QueuedJob
    attempt: AttemptId
    target: Target


@dataclass(frozen=True, slots=True)
class _Waits:
    reasons: Sequence[WaitReason]
    text: str


@dataclass(slots=True)
class _Room:
    """What a pass gives away. `faulty` names the machines that a job comes from for their fault."""

    views: dict[str, FleetView]
    faulty: Mapping[JobId, set[str]]
    usage: Usage
    _held: dict[tuple[int, int], _Waits] = field(default_factory=dict)

    def find_held(self, job: QueuedJob) -> _Waits | None:
        """What of a quota is used up. Use only grows in a pass: what held one job holds the next of its kind."""
        kind = (job.user_id, id(job.pools))
        if kind not in self._held:
            holds = self.usage.find_holds(job.user_id, job.pools)
            if not holds:
                return None
            self._held[kind] = _Waits(holds, describe_waiting(holds))
        return self._held[kind]


class Dequeue:
    """One pass of the queue."""

    def __init__(self, deps: SchedulerDeps, launcher: Launcher) -> None:
        self._deps = deps
        self._launcher = launcher
        self._looks = Looks(deps)

    async def run_once(self) -> float:
        """Place whatever the present view can take; gives the seconds until the next look is due."""
        wait_s = await self._retry_due()
        now = self._deps.clock.now()
        due = [(decide_hold(job), job) for job in await self._deps.ledger.read(list_queued)]
        wait_s = min([wait_s, *(max(0.05, at - now) for at, _ in due if at > now)])
        # Looked at even when nothing waits: admission, profiles and pages read what was seen here.
        in_flight, usage = await self._deps.ledger.read(lambda c: (list_in_flight(c), load_usage(c)))
        views = await self._views(in_flight)
        queued = order_queue(job for at, job in due if at <= now)
        if queued:
            await self._place_all(queued, _Room(views, await self._faulty_nodes(queued, now), usage))
        return wait_s

    async def look(self) -> None:
        """Learn what the fleets offer, without placing anything."""
        await self._views(await self._deps.ledger.read(list_in_flight))

    async def close(self) -> None:
        """Cut off what is under way."""
        await self._looks.close()

    async def _retry_due(self) -> float:
        now = self._deps.clock.now()
        due, next_at = await self._deps.ledger.read(lambda connection: list_due_retries(connection, now))
        for ref in due:
            await self._retry(ref)
        return self._deps.reconcile_s if next_at is None else min(self._deps.reconcile_s, max(0.05, next_at - now))

    async def _retry(self, ref: JobRef) -> None:
        guard = self._deps.guard()
        await self._deps.ledger.write(lambda connection: move(connection, ref, [Reason.RETRIED], guard))
        self._deps.wakeups.notify(job_topic(ref.id))

    async def _views(self, in_flight: Sequence[JobInFlight]) -> dict[str, FleetView]:
        views = {fleet: claim_targets(view, in_flight) for fleet, view in (await self._looks.load()).items()}
        self._deps.views_seen(list(views.values()))
        return views

    async def _faulty_nodes(self, queued: Sequence[QueuedJob], now: float) -> Mapping[JobId, set[str]]:
        again = [job.id for job in queued if job.number > 1]
        if not again:
            return {}
        return await self._deps.ledger.read(lambda c: list_faulty_nodes(c, again, now - FAULT_KNOWN_S))

    async def _place_all(self, queued: Sequence[QueuedJob], room: "_Room") -> None:
        # A pass only takes from the views, so what one job found no room for, none of its shape finds room for later.
        no_room: dict[_Shape, _Waits] = {}
        placed: list[_Placed] = []
        notes: list[tuple[QueuedJob, Sequence[WaitReason]]] = []
        for job in queued:
            shape = (job.fleet, id(job.pools))
            why = self._find_hold(job, room) or no_room.get(shape)
            if why is None:
                answer = self._place(job, room.views, room.faulty.get(job.id, frozenset()))
                if isinstance(answer, _Placed):
                    placed.append(answer)
                    room.usage.take(job.user_id, job.id, count_gpus(job.pools))
                else:
                    why = no_room[shape] = _Waits(answer, describe_waiting(answer))
            if len(placed) == _BEGUN_AT_ONCE:
                await self._begin_all(placed)
                placed.clear()
            if why is not None and why.text != job.note:
                notes.append((job, why.reasons))
        await self._begin_all(placed)
        for start in range(0, len(notes), _NOTES_AT_ONCE):
            await self._note(notes[start : start + _NOTES_AT_ONCE])

    def _find_hold(self, job: QueuedJob, room: "_Room") -> _Waits | None:
        """What keeps the job from starting wherever there is room: its owners' quotas, and inputs that are not here."""
        held = room.find_held(job)
        missing = self._deps.explain_inputs(job.inputs) if job.inputs else ()
        if not missing:
            return held
        reasons = [*(held.reasons if held else ()), *missing]
        return _Waits(reasons, describe_waiting(reasons))

    def _place(
        self, job: QueuedJob, views: dict[str, FleetView], faulty: Collection[str]
    ) -> _Placed | list[WaitReason]:
        """The job's place, taken from `views`, or why it waits; one of `faulty` only where no other has room."""
        attempt = new_attempt_id(job.id, job.number)
        target: Target | list[WaitReason] = []
        if faulty:
            target = self._find_target(job, attempt, {name: _leave_out(view, faulty) for name, view in views.items()})
        if not isinstance(target, Target):
            target = self._find_target(job, attempt, views)
        if not isinstance(target, Target):
            return target
        views[target.fleet] = claim(views[target.fleet], target.node, attempt, job.pools)
        return _Placed(job, attempt, target)

    def _find_target(
        self, job: QueuedJob, attempt: AttemptId, views: Mapping[str, FleetView]
    ) -> Target | list[WaitReason]:
        ask = _Ask(attempt=attempt, pools=job.pools)
        reasons: list[WaitReason] = []
        for fleet in [job.fleet] if job.fleet is not None else list(views):
            view, executor = views.get(fleet), self._deps.executors.get(fleet)
            if view is None or executor is None:
                reasons.append(explain_unserved(fleet))
                continue
            answer = executor.place(ask, view)
            if isinstance(answer, Target):
                return answer
            reasons += explain_no_room(view, answer)
        return reasons

    async def _begin_all(self, placed: Sequence[_Placed]) -> None:
        """Side by side, so that they share a commit; one that fails keeps no other from its launch."""
        for ended in await asyncio.gather(*map(self._begin, placed), return_exceptions=True):
            if isinstance(ended, BaseException):
                raise ended

    async def _begin(self, placed: _Placed) -> None:
        job, attempt, target = placed.job, placed.attempt, placed.target
        guard = self._deps.guard()
        new = NewAttempt(
            id=attempt,
            number=job.number,
            target=target,
            token_hash=hash_token(self._deps.assembly.token(attempt)),
            token_expires_at=guard.now + TOKEN_LIFE_S,
            lease=self._deps.owner,
            lease_until=guard.monotonic + LAUNCH_LEASE_S,
        )
        with self._launcher.expecting(job.id):
            ref = await self._deps.ledger.write(lambda connection: dequeue(connection, job, new, guard))
            if ref is None:
                return
            self._launcher.begin(job.id)
        self._deps.wakeups.notify(job_topic(job.id))

    async def _note(self, notes: Sequence[tuple[QueuedJob, Sequence[WaitReason]]]) -> None:
        await self._deps.ledger.write(lambda connection: note_waiting(connection, notes))
        self._deps.wakeups.notify(*(job_topic(job.id) for job, _ in notes))


def _leave_out(view: FleetView, names: Collection[str]) -> FleetView:
    return replace(view, nodes=tuple(node for node in view.nodes if node.name not in names))
