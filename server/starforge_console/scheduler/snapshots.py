"""What decides a pass, as the ledger and the machines say it at one moment: for the pass, and for whoever asks why."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from starforge.contract.executor import FleetView
from starforge.contract.ids import JobId
from starforge_console.domain.job import QueuedJob
from starforge_console.domain.opening import Closed, OpenNow
from starforge_console.domain.reservation import list_releases
from starforge_console.domain.retry import LONGEST_DELAY_S
from starforge_console.domain.schedule import Snapshot
from starforge_console.domain.waiting import WaitReason, explain_maintenance
from starforge_console.ledger.held import Held
from starforge_console.ledger.maintenance import Maintenance
from starforge_console.ledger.queue import list_faulty_nodes
from starforge_console.scheduler.deps import SnapshotSources

FAULT_KNOWN_S: Final = LONGEST_DELAY_S + 600.0
"""How long a job prefers others to a machine that ended it, beyond every wait for its next attempt."""


@dataclass(frozen=True, slots=True)
class Snapshots:
    """Makes them."""

    sources: SnapshotSources

    async def build(
        self,
        queued: Sequence[QueuedJob],
        views: Mapping[str, FleetView],
        held: Held,
        open_now: OpenNow,
        maintenance: Maintenance | None,
    ) -> Snapshot:
        """The snapshot of a pass over `queued`."""
        now = self.sources.clock.now()
        return Snapshot(
            queued=queued,
            views=views,
            place={fleet: executor.place for fleet, executor in self.sources.executors.items()},
            now=now,
            releases={fleet: list_releases(held.in_flight, fleet, now) for fleet in held.strict},
            shares=held.order.shares,
            usage=held.usage,
            faulty=await self._faulty_nodes(queued, now),
            name_attempt=self.sources.name_attempt,
            explain_hold=_explain_rest(maintenance) if maintenance else partial(self._explain_hold, open_now),
            find_closed=Closed(open_now, held.strict).find if held.strict else open_now.find_closed,
        )

    async def _faulty_nodes(self, queued: Sequence[QueuedJob], now: float) -> Mapping[JobId, set[str]]:
        again = [job.id for job in queued if job.number > 1]
        if not again:
            return {}
        return await self.sources.ledger.read(lambda c: list_faulty_nodes(c, again, now - FAULT_KNOWN_S))

    def _explain_hold(self, open_now: OpenNow, job: QueuedJob) -> Sequence[WaitReason]:
        closed = open_now.explain_hold(job)
        return [*closed, *self.sources.explain_inputs(job.inputs)] if job.inputs else closed


def _explain_rest(maintenance: Maintenance) -> Callable[[QueuedJob], Sequence[WaitReason]]:
    why = (explain_maintenance(maintenance.by, maintenance.reason),)
    return lambda _job: why
