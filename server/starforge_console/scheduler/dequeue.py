"""Dequeue: brings failed jobs back when their time has come, places queued ones, and has them launched."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from starforge.contract.executor import FleetView
from starforge.contract.states import Reason
from starforge_console.domain.claims import claim_targets
from starforge_console.domain.job import JobInFlight, QueuedJob
from starforge_console.domain.opening import OpenNow, Windows
from starforge_console.domain.retry import split_due
from starforge_console.domain.schedule import Snapshot, Start, Waits, decide_queue
from starforge_console.domain.tokens import hash_token
from starforge_console.ledger.held import Held, load_held
from starforge_console.ledger.in_flight import list_in_flight
from starforge_console.ledger.maintenance import Maintenance, find_maintenance
from starforge_console.ledger.moves import JobRef, move
from starforge_console.ledger.queue import (
    NewAttempt,
    dequeue,
    list_due_retries,
    note_waiting,
)
from starforge_console.ledger.queue_memory import RememberedQueue
from starforge_console.ledger.shares import ShareOrder, refresh_order
from starforge_console.ledger.wishes import go_on, list_going_on
from starforge_console.scheduler.deps import SchedulerDeps
from starforge_console.scheduler.launch import LAUNCH_LEASE_S, Launcher
from starforge_console.scheduler.looks import Looks
from starforge_console.scheduler.rest import Rest, build_basis
from starforge_console.scheduler.restored import AfterRestore
from starforge_console.scheduler.snapshots import Snapshots
from starforge_console.scheduler.windows import OpeningHours
from starforge_console.wakeups import job_topic

TOKEN_LIFE_S: Final = 400 * 24 * 3600.0
"""An attempt's token lives until its end (then one hour more); this only bounds what is forgotten."""
_BEGUN_AT_ONCE: Final = 32
_NOTES_AT_ONCE: Final = 500
"""A long queue's notes leave other writers their turn."""


class Dequeue:
    """One pass of the queue."""

    def __init__(self, deps: SchedulerDeps, launcher: Launcher) -> None:
        self._deps = deps
        self._launcher = launcher
        self._looks = Looks(deps)
        self._after_restore = AfterRestore(deps)
        self._hours = OpeningHours(deps)
        self._snapshots = Snapshots(deps.snapshot_sources)
        self._queue = RememberedQueue()
        self._rest = Rest()

    async def run_once(self) -> float:
        """Place whatever the present view can take; gives the seconds until the next look is due."""
        wait_s = await self._retry_due()
        maintenance = await self._go_on()
        windows, edge = await self._hours.run_once()
        wait_s = min(wait_s, await self._after_restore.run_once())
        now = self._deps.clock.now()
        queued, held_until = split_due(await self._deps.ledger.read(self._queue.load), now)
        # Looked at even when nothing waits: admission, profiles and pages read what was seen here.
        held = await self._deps.ledger.read(lambda c: load_held(c, now))
        views = await self._views(held.in_flight)
        opens_at = None
        if queued:
            held = replace(held, order=await self._refresh(held, now))
            opens_at = await self._place(queued, views, held, windows, maintenance)
            if windows.kept:
                windows, edge = await self._hours.run_once()  # what was just started closes too
        edges = [at for at in (held_until, edge, opens_at) if at is not None]
        return min([wait_s, *(max(0.05, at - self._deps.clock.now()) for at in edges)])

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

    async def _go_on(self) -> Maintenance | None:
        """Queue the paused jobs that go on by themselves, unless a maintenance lasts; gives that."""
        maintenance, paused = await self._deps.ledger.read(lambda c: (find_maintenance(c), list_going_on(c)))
        for ref in paused if maintenance is None else ():
            guard = self._deps.guard()
            await self._deps.ledger.write(partial(go_on, job=ref, guard=guard))
            self._deps.wakeups.notify(job_topic(ref.id))
        return maintenance

    async def _views(self, in_flight: Sequence[JobInFlight]) -> dict[str, FleetView]:
        views = {fleet: claim_targets(view, in_flight) for fleet, view in (await self._looks.load()).items()}
        self._deps.views_seen(list(views.values()))
        return views

    async def _refresh(self, held: Held, now: float) -> ShareOrder:
        """The order of the queue, looked at anew where that is due."""
        has_used = bool(held.in_flight) or held.order.at is not None
        if not has_used or not held.order.is_due(now):
            return held.order
        return await self._deps.ledger.write(lambda connection: refresh_order(connection, now))

    async def _place(
        self,
        queued: Sequence[QueuedJob],
        views: Mapping[str, FleetView],
        held: Held,
        windows: Windows,
        maintenance: Maintenance | None,
    ) -> float | None:
        """Place what can be placed, unless nothing can; gives when a window opens for one of the jobs."""
        now = self._deps.clock.now()
        open_now = OpenNow(windows, self._deps.executors, now)
        snapshot = await self._snapshots.build(queued, views, held, open_now, maintenance)
        basis = build_basis(snapshot, windows, maintenance, self._deps.explain_inputs)
        if self._rest.lasts(basis, now):
            return self._rest.opens_at
        if not await self._decide(snapshot):
            self._rest.begin(basis, now, open_now.next_start)
        return open_now.next_start

    async def _decide(self, snapshot: Snapshot) -> bool:
        """Carry out what is decided on each job; whether that was anything."""
        placed: list[Start] = []
        notes: list[Waits] = []
        has_placed = False
        for decision in decide_queue(snapshot):
            if isinstance(decision, Start):
                placed.append(decision)
                has_placed = True
            elif decision.text != decision.job.note:
                notes.append(decision)
            if len(placed) == _BEGUN_AT_ONCE:
                await self._begin_all(placed)
                placed.clear()
        await self._begin_all(placed)
        for start in range(0, len(notes), _NOTES_AT_ONCE):
            await self._note(notes[start : start + _NOTES_AT_ONCE])
        return has_placed or bool(notes)

    async def _begin_all(self, placed: Sequence[Start]) -> None:
        """Side by side, so that they share a commit; one that fails keeps no other from its launch."""
        for ended in await asyncio.gather(*map(self._begin, placed), return_exceptions=True):
            if isinstance(ended, BaseException):
                raise ended

    async def _begin(self, placed: Start) -> None:
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
        passed = [one.id for one in placed.passed]
        with self._launcher.expecting(job.id):
            ref = await self._deps.ledger.write(lambda connection: dequeue(connection, job, new, guard, passed))
            if ref is None:
                return
            self._launcher.begin(job.id)
        self._deps.wakeups.notify(job_topic(job.id))

    async def _note(self, notes: Sequence[Waits]) -> None:
        told = [(one.job, one.reasons) for one in notes]
        await self._deps.ledger.write(lambda connection: note_waiting(connection, told))
        self._queue.note([(one.job, one.text) for one in notes])
        self._deps.wakeups.notify(*(job_topic(one.job.id) for one in notes))
