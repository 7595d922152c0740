"""Why a queued job waits: the pass's own decision over the present queue, and what would start the job at once."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from starforge.contract.executor import FleetView
from starforge.said.sentence import say
from starforge_console.domain.alternatives import Alternative, find_alternatives
from starforge_console.domain.claims import claim_targets
from starforge_console.domain.job import QueuedJob
from starforge_console.domain.opening import OpenNow
from starforge_console.domain.retry import decide_hold
from starforge_console.domain.schedule import NodeWhy, Snapshot, Start, explain_queued
from starforge_console.domain.waiting import WaitReason
from starforge_console.ledger.held import load_held
from starforge_console.ledger.maintenance import find_maintenance
from starforge_console.ledger.queue import list_queued
from starforge_console.ledger.windows import load_windows
from starforge_console.scheduler.deps import SnapshotSources
from starforge_console.scheduler.snapshots import Snapshots


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why the job waits. Without `reasons` the next pass starts it.

    `nodes`: why each machine that it may go to does not take it. `starts_with`: single changes of its request with
    which it, submitted again, would start at once.
    """

    reasons: Sequence[WaitReason] = ()
    nodes: Sequence[NodeWhy] = ()
    starts_with: Sequence[Alternative] = ()


@dataclass(frozen=True, slots=True)
class Explainer:
    """Asks the scheduler's rules. `views` gives the fleets' capacity as last heard."""

    sources: SnapshotSources
    views: Callable[[], Sequence[FleetView]]
    _one_by_one: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))

    async def explain(self, job_id: str, takes_gpus: Callable[[int], bool] = lambda _count: True) -> Explanation | None:
        """Why the job waits at this moment; None for one that is not queued. Changes nothing.

        `takes_gpus` says whether it may be submitted with so many GPUs on each machine.
        """
        sources = self.sources
        now = sources.clock.now()
        queue, held, windows, maintenance = await sources.ledger.read(
            lambda c: (list_queued(c), load_held(c, now), load_windows(c), find_maintenance(c))
        )
        job = next((one for one in queue if one.id == job_id), None)
        if job is None:
            return None
        views = {view.fleet: claim_targets(view, held.in_flight) for view in self.views()}
        queued = [one for one in queue if one is job or decide_hold(one, now) <= now]
        open_now = OpenNow(windows, sources.executors, now)
        snapshot = await Snapshots(sources).build(queued, views, held, open_now, maintenance)
        async with self._one_by_one:  # of a long queue it takes a while, and many may ask
            return await asyncio.to_thread(_explain, snapshot, job, takes_gpus)


def _explain(snapshot: Snapshot, job: QueuedJob, takes_gpus: Callable[[int], bool]) -> Explanation:
    explained = explain_queued(snapshot, job)
    later = decide_hold(job, snapshot.now)
    reasons = [] if isinstance(explained.decision, Start) else list(explained.decision.reasons)
    if later > snapshot.now:
        at = datetime.fromtimestamp(later, UTC)
        reasons = [WaitReason(say("wait.start_failed", at=f"{at:%H:%M:%S}")), *reasons]
    if not reasons and not isinstance(explained.decision, Start):
        reasons = [WaitReason(explained.decision.text)]
    if not reasons:
        return Explanation()
    starts_with = find_alternatives(snapshot, job, takes_gpus)
    return Explanation(reasons=reasons, nodes=explained.nodes, starts_with=starts_with)
