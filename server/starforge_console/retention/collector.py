"""The collector: lists what may go, or lets it go, a bounded amount at a time, and holds while a backup holds it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Protocol

import structlog

from starforge.contract.ids import AttemptId, Digest
from starforge.errors import Conflict, StarForgeError
from starforge.recipes.model import Recipe
from starforge.said.sentence import say
from starforge_console.blobs.store import BlobStore
from starforge_console.clock import Clock
from starforge_console.domain.retention import (
    Better,
    JobFacts,
    Kind,
    Removal,
    Terms,
    decide_files,
    decide_job,
    find_hold,
)
from starforge_console.ledger import removals as ledger_removals
from starforge_console.ledger import retention_runs
from starforge_console.ledger.audit import audited
from starforge_console.ledger.database import Database
from starforge_console.ledger.listing import load_lines
from starforge_console.ledger.removals import Place
from starforge_console.ledger.retention_runs import Hold, LastRun
from starforge_console.ledger.stored import Store
from starforge_console.retention.disk import Disk
from starforge_console.retention.ratings import CurveReader, Rater
from starforge_console.wakeups import ENDINGS, QUEUE, Wakeups, job_topic

KEYS_KEPT_S: Final = 48 * 3600.0
"""How long a submission can be repeated under its Idempotency-Key."""
TOKENS_KEPT_S: Final = 30 * 86_400.0
"""How long a token is remembered that has run out or was revoked."""
LONGEST_HOLD_S: Final = 7 * 86_400.0
AT_ONCE: Final = 200
"""So many things go, or are listed, in one pass; what is left has its turn in the next."""
PASS_S: Final = 15.0
JOBS_A_PAGE: Final = 100
ROWS_A_PASS: Final = 1000
_SOON_S: Final = 2.0
_FROM_THE_BEGINNING: Final[Place] = (0.0, "")

_log = structlog.get_logger("retention")


class MoreSource(Protocol):
    """Something else that is collected, with a rule of its own."""

    async def list_removals(self, now: float) -> Sequence[Removal]:
        """What may go now."""

    async def remove(self, one: Removal) -> None:
        """Let it go. Raises OSError and StarForgeError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorParts:
    """What the collector is built from. `runner` is the digest of the runner that the next attempt is given."""

    ledger: Database
    series: Database
    blobs: BlobStore
    disk: Disk
    curves: CurveReader
    catalog: Mapping[str, Recipe]
    terms: Terms
    clock: Clock
    wakeups: Wakeups
    runner: str
    period_s: float
    works_alone: bool = True
    more: Mapping[Kind, MoreSource] = field(default_factory=dict)


@dataclass(slots=True)
class Outcome:
    """What a pass found: only listed, or let go where `is_applied`. `more`: not everything was looked at."""

    is_applied: bool
    items: list[Removal] = field(default_factory=list)
    failed: list[tuple[Removal, str]] = field(default_factory=list)
    expired: Mapping[str, int] = field(default_factory=dict)
    more: bool = False

    @property
    def total_bytes(self) -> int:
        """How much the items take, as far as that is known."""
        return sum(one.bytes or 0 for one in self.items)


class Collector:
    """One console's. A pass that removes is never beside another one."""

    def __init__(self, parts: CollectorParts) -> None:
        self._parts = parts
        self._turn = asyncio.Lock()
        self._place = _FROM_THE_BEGINNING

    async def run_once(self) -> float:
        """One pass of the console's own; gives the seconds until the next one is due."""
        if not self._parts.works_alone:
            return self._parts.period_s
        if await self.find_hold() is not None or self._turn.locked():
            return min(60.0, self._parts.period_s)
        outcome = await self._collect("")
        return _SOON_S if outcome.more else self._parts.period_s

    async def plan(self, limit: int) -> Outcome:
        """What would go now, at most `limit` things; nothing is changed. Raises Unavailable without the storage."""
        await asyncio.to_thread(self._parts.blobs.require_storage)
        outcome, now = Outcome(is_applied=False), self._parts.clock.now()
        async for _, found in self._find(_FROM_THE_BEGINNING, now):
            room = limit - len(outcome.items)
            outcome.items += [await self._measured(one) for one in found[:room]]
            if len(found) > room:
                outcome.more = True
                break
        over = _build_expiry(now)
        outcome.expired = await self._parts.ledger.read(lambda c: ledger_removals.count_expired(c, over))
        return outcome

    async def collect(self, by: str) -> Outcome:
        """Let go what may, a bounded amount; `by` asked for it.

        Raises:
            Conflict: a backup holds the collector, or it is at work already.
            Unavailable: the storage is not mounted.

        """
        hold = await self.find_hold()
        if hold is not None:
            raise Conflict(
                say("form.gc_held"),
                why=say("form.gc_held_why", by=hold.by, why=hold.why or say("form.gc_held_no_reason")),
                next_step=say("form.gc_held_next", hold=hold.id),
            )
        if self._turn.locked():
            raise Conflict(say("form.gc_busy"), next_step=say("form.ask_again"))
        return await self._collect(by)

    async def find_hold(self) -> Hold | None:
        """The hold that lasts longest of those that stand now."""
        return next(iter(await self.list_holds()), None)

    async def list_holds(self) -> Sequence[Hold]:
        """The holds that stand now, the one that lasts longest first."""
        now = self._parts.clock.now()
        return await self._parts.ledger.read(lambda c: retention_runs.list_holds(c, now))

    async def find_last_run(self) -> LastRun | None:
        """The last pass that did something."""
        return await self._parts.ledger.read(retention_runs.find_last_run)

    async def hold(self, by: str, why: str, for_s: float) -> Hold:
        """Remove nothing for `for_s` seconds, beside any other hold; waits until a pass under way has ended.

        Raises:
            Conflict: there are too many holds.

        """
        now = self._parts.clock.now()
        hold = Hold(id=retention_runs.new_hold_id(by), until=now + min(for_s, LONGEST_HOLD_S), by=by, why=why)
        told = say("did.retention_held", hours=f"{(hold.until - now) / 3600:g}")
        await self._parts.ledger.write(audited(lambda c: retention_runs.add_hold(c, hold, now), told))
        async with self._turn:
            _log.info("held", by=by, hold=hold.id, reason=why, until=hold.until)
            return hold

    async def release(self, by: str, hold_id: str = "") -> None:
        """End what `by` holds, or this one hold, whoever's it is; fine when there is none. All others stand."""
        end = (
            partial(retention_runs.end_hold, hold_id=hold_id)
            if hold_id
            else partial(retention_runs.end_holds_of, by=by)
        )
        await self._parts.ledger.write(audited(end, say("did.retention_released")))
        _log.info("released", by=by, hold=hold_id)

    async def _collect(self, by: str) -> Outcome:
        parts = self._parts
        async with self._turn:
            await asyncio.to_thread(parts.blobs.require_storage)
            await asyncio.to_thread(parts.disk.put_blobs_back)
            outcome, now = Outcome(is_applied=True), parts.clock.now()
            await self._let_go(outcome, now)
            over = _build_expiry(now)
            outcome.expired = await parts.ledger.write(lambda c: ledger_removals.delete_expired(c, over, ROWS_A_PASS))
        if outcome.items or outcome.failed or any(outcome.expired.values()):
            run = LastRun(
                at=now,
                by=by,
                removed=len(outcome.items),
                bytes=outcome.total_bytes,
                failed=len(outcome.failed),
                expired=dict(outcome.expired),
            )
            await parts.ledger.write(lambda c: retention_runs.write_last_run(c, run))
            _log.info("collected", by=by or "itself", removed=run.removed, bytes=run.bytes, failed=run.failed)
        if by:
            told = say("did.retention_collected", n=len(outcome.items))
            await parts.ledger.write(audited(lambda _: None, told))
        return outcome

    async def _let_go(self, outcome: Outcome, now: float) -> None:
        began_at, deadline = self._place, self._parts.clock.monotonic() + PASS_S
        async for place, found in self._find(began_at, now):
            if found and await self.find_hold() is not None:
                return
            for one in await self._begin(found, now):
                await self._remove(one, outcome, now)
            self._place = place
            if len(outcome.items) >= AT_ONCE or self._parts.clock.monotonic() > deadline:
                outcome.more = True
                return
        outcome.more = began_at != _FROM_THE_BEGINNING  # what lies before it has its turn in the next pass
        self._place = _FROM_THE_BEGINNING

    async def _find(self, place: Place, now: float) -> AsyncIterator[tuple[Place, Sequence[Removal]]]:
        """What may go, a job or a kind at a time, each with the place among the jobs from which one can go on."""
        parts = self._parts
        yield place, await parts.ledger.read(lambda c: ledger_removals.list_unfinished(c, AT_ONCE))
        async for found in self._find_files(now):
            yield place, found
        for source in parts.more.values():
            yield place, await source.list_removals(now)
        before = now - parts.terms.shortest_s
        while True:
            page = await parts.ledger.read(_page_of(place, before))
            for job in page:
                place = (job.ended_at or 0.0, job.id)
                yield place, await self._decide(job, now)
            if len(page) < JOBS_A_PAGE:
                return

    async def _find_files(self, now: float) -> AsyncIterator[Sequence[Removal]]:
        parts = self._parts
        blobs = [one for one in await asyncio.to_thread(parts.disk.list_blobs) if one.name != parts.runner]
        old = [one for one in blobs if now - one.used_at >= parts.terms.blob_s]
        names = [one.name for one in old]
        referenced = await parts.ledger.read(lambda c: ledger_removals.list_referenced(c, names))
        facts = [replace(one, is_referenced=one.name in referenced) for one in old]
        yield decide_files(Kind.BLOB, facts, parts.terms.blob_s, now)
        uploads = await asyncio.to_thread(parts.disk.list_uploads)
        yield decide_files(Kind.UPLOAD, uploads, parts.terms.upload_s, now)

    async def _decide(self, job: JobFacts, now: float) -> Sequence[Removal]:
        if find_hold(job):
            return ()
        terms = self._parts.terms
        job = await asyncio.to_thread(self._parts.disk.look, job)
        steps = {one.step for attempt in job.attempts for one in attempt.checkpoints if one.committed}
        better: Better | None = None
        if len(steps) > terms.checkpoints_kept and now - (job.ended_at or now) >= terms.checkpoint_s:
            job, better = await self._rate(job, sorted(steps))
        return decide_job(job, terms, now, better)

    async def _rate(self, job: JobFacts, steps: Sequence[int]) -> tuple[JobFacts, Better | None]:
        """The job with what its primary metric was at its checkpoints, and which values are better, where known."""
        rater = Rater(self._parts.curves, self._parts.catalog)
        line = (await self._parts.ledger.read(lambda c: load_lines(c, [job.id]))).get(job.id)
        found = None if line is None else await rater.find_ratings(job.id, line.recipe, steps)
        if found is None:
            return job, None
        rated = [
            replace(
                attempt,
                checkpoints=tuple(replace(one, value=found.values.get(one.step)) for one in attempt.checkpoints),
            )
            for attempt in job.attempts
        ]
        return replace(job, attempts=tuple(rated)), found.better

    async def _begin(self, found: Sequence[Removal], now: float) -> Sequence[Removal]:
        """Write down what goes of a job before it goes; everything else may be begun as it is."""
        kept = [one for one in found if one.kind in {Kind.WORK, Kind.LOG, Kind.CHECKPOINT}]
        measured = [await self._measured(one) for one in kept]
        others = [one for one in found if one not in kept]
        begun: list[Removal] = []
        for job in dict.fromkeys(one.job for one in measured):
            mine = [one for one in measured if one.job == job]
            begun += await self._parts.ledger.write(_begin_of(mine, now))
        return [*others, *begun]

    async def _remove(self, one: Removal, outcome: Outcome, now: float) -> None:
        try:
            is_gone = await self._remove_by_kind(one, now)
        except (OSError, StarForgeError) as error:
            _log.warning("something could not be removed", kind=one.kind, job=one.job, name=one.name, error=str(error))
            outcome.failed.append((one, str(error)))
            return
        if is_gone:
            outcome.items.append(one)

    async def _remove_by_kind(self, one: Removal, now: float) -> bool:
        parts = self._parts
        match one.kind:
            case Kind.CONTAINER:
                parts.wakeups.notify(ENDINGS)  # cleanup removes containers, and looks at once
                return False
            case Kind.BLOB:
                return await self._remove_blob(Digest(one.name))
            case Kind.UPLOAD:
                await asyncio.to_thread(parts.disk.remove_upload, one.name)
                return True
            case Kind.WORK | Kind.LOG | Kind.CHECKPOINT:
                if one.kind is Kind.LOG:
                    await parts.series.write(lambda c: ledger_removals.delete_segments(c, AttemptId(one.attempt)))
                await asyncio.to_thread(parts.disk.remove, one)
                left = await self._measure_left(one)
                await parts.ledger.write(partial(ledger_removals.finish_removal, one=one, left=left, now=now))
                parts.wakeups.notify(job_topic(one.job), QUEUE)  # what a quota of storage holds back may start
                return True
        await parts.more[one.kind].remove(one)
        return True

    async def _measure_left(self, one: Removal) -> Mapping[tuple[Store, int], int]:
        """How much of its kind the attempt still holds."""
        if one.kind is Kind.LOG:
            return {(Store.LOG, one.number): 0}
        if one.kind is not Kind.CHECKPOINT:
            return {}
        left = await asyncio.to_thread(self._parts.disk.measure_checkpoints, AttemptId(one.attempt))
        return {(Store.CHECKPOINTS, one.number): left}

    async def _remove_blob(self, digest: Digest) -> bool:
        """Take it aside, look once more whether anything refers to it or has used it, then put it back or remove it."""
        disk, kept_s = self._parts.disk, self._parts.terms.blob_s
        aside = await asyncio.to_thread(disk.take_blob_aside, digest)
        if aside is None:
            return False
        referenced = await self._parts.ledger.read(lambda c: ledger_removals.list_referenced(c, [digest]))
        is_old = self._parts.clock.now() - (await asyncio.to_thread(aside.stat)).st_mtime >= kept_s
        if referenced or not is_old:
            await asyncio.to_thread(disk.put_blobs_back)
            return False
        await asyncio.to_thread(aside.unlink)
        return True

    async def _measured(self, one: Removal) -> Removal:
        if one.bytes is not None or not one.attempt:
            return one
        return replace(one, bytes=await asyncio.to_thread(self._parts.disk.measure, one))


def _build_expiry(now: float) -> ledger_removals.Expiry:
    return ledger_removals.Expiry(keys_before=now - KEYS_KEPT_S, tokens_before=now - TOKENS_KEPT_S)


def _page_of(place: Place, before: float) -> Callable[[Any], Sequence[JobFacts]]:
    return lambda c: ledger_removals.list_ended(c, place, before, JOBS_A_PAGE)


def _begin_of(mine: Sequence[Removal], now: float) -> Callable[[Any], Sequence[Removal]]:
    return lambda c: ledger_removals.begin_removals(c, mine, now)
