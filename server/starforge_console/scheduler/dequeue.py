"""Dequeue: brings failed jobs back when their time has come, places queued ones, and has them launched."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from starforge.contract.executor import FleetView, NoRoom, Target
from starforge.contract.ids import AttemptId, new_attempt_id
from starforge.contract.launch import PoolRequest
from starforge.contract.observation import NoSignal
from starforge.contract.states import JobState, Reason
from starforge_console.domain.claims import claim, claim_targets, pool_requests
from starforge_console.domain.job import JobInFlight, QueuedJob
from starforge_console.domain.order import order_queue
from starforge_console.domain.retry import decide_hold
from starforge_console.domain.tokens import hash_token
from starforge_console.ledger.in_flight import list_in_flight, note_progress
from starforge_console.ledger.moves import JobRef, move
from starforge_console.ledger.queue import NewAttempt, dequeue, list_due_retries, list_queued
from starforge_console.scheduler.deps import SchedulerDeps
from starforge_console.scheduler.launch import LAUNCH_LEASE_S, Launcher
from starforge_console.wakeups import job_topic

TOKEN_LIFE_S: Final = 400 * 24 * 3600.0
"""An attempt's token lives until its end (then one hour more); this only bounds what is forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ask:
    attempt: AttemptId
    pools: tuple[PoolRequest, ...]


@dataclass(frozen=True, slots=True)
class _Placed:
    attempt: AttemptId
    target: Target


class Dequeue:
    """One pass of the queue."""

    def __init__(self, deps: SchedulerDeps, launcher: Launcher) -> None:
        self._deps = deps
        self._launcher = launcher

    async def run_once(self) -> float:
        """Place whatever the present view can take; gives the seconds until the next look is due."""
        wait_s = await self._retry_due()
        now = self._deps.clock.now()
        due = [(decide_hold(job), job) for job in await self._deps.ledger.read(list_queued)]
        wait_s = min([wait_s, *(max(0.05, at - now) for at, _ in due if at > now)])
        queued = order_queue(job for at, job in due if at <= now)
        if not queued:
            return wait_s
        in_flight = await self._deps.ledger.read(list_in_flight)
        views = await self._views(in_flight)
        for job in queued:
            placed = await self._place(job, views)
            if placed is not None:
                fleet = placed.target.fleet
                views[fleet] = claim(views[fleet], placed.target.node, placed.attempt, job.pools)
        return wait_s

    async def look(self) -> None:
        """Learn what the fleets offer, without placing anything."""
        await self._views(await self._deps.ledger.read(list_in_flight))

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
        answers = await asyncio.gather(*(executor.capacity() for executor in self._deps.executors.values()))
        views = {}
        for fleet, answer in zip(self._deps.executors, answers, strict=True):
            if isinstance(answer, NoSignal):
                views[fleet] = FleetView(fleet=fleet, nodes=(), complete=False, why_not=answer.reason)
            else:
                views[fleet] = claim_targets(answer, in_flight)
        self._deps.views_seen(list(views.values()))
        return views

    async def _place(self, job: QueuedJob, views: Mapping[str, FleetView]) -> _Placed | None:
        attempt = new_attempt_id(job.id, job.number)
        ask = _Ask(attempt=attempt, pools=pool_requests(job.pools))
        reasons = []
        for fleet in [job.fleet] if job.fleet is not None else list(views):
            view = views.get(fleet)
            if view is None:
                reasons.append(f"fleet {fleet} is not served here")
                continue
            answer = self._deps.executors[fleet].place(ask, view)
            if isinstance(answer, Target):
                return await self._begin(job, attempt, answer)
            reasons.append(_why(view, answer))
        await self._note(job, "; ".join(reasons) or "there is no fleet")
        return None

    async def _begin(self, job: QueuedJob, attempt: AttemptId, target: Target) -> _Placed | None:
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
                return None
            self._launcher.begin(job.id)
        self._deps.wakeups.notify(job_topic(job.id))
        return _Placed(attempt, target)

    async def _note(self, job: QueuedJob, note: str) -> None:
        ref = JobRef(id=job.id, state=JobState.QUEUED, version=job.version)
        if await self._deps.ledger.write(lambda connection: note_progress(connection, ref, note)):
            self._deps.wakeups.notify(job_topic(job.id))


def _why(view: FleetView, no_room: NoRoom) -> str:
    if not view.nodes:
        return f"{view.fleet}: {view.why_not or 'no machine'}"
    return "; ".join(f"{node}: {why}" for node, why in no_room.per_node.items())
