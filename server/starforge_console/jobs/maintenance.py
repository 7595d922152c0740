"""Maintenance of the whole console: nothing starts, and what runs is paused until it is over."""

from dataclasses import dataclass

import structlog

from starforge.said.sentence import say
from starforge_console.clock import Clock
from starforge_console.ledger.audit import audited
from starforge_console.ledger.database import Database
from starforge_console.ledger.maintenance import (
    Maintenance,
    MaintenanceCounts,
    begin_maintenance,
    count_in_maintenance,
    end_maintenance,
    find_maintenance,
)
from starforge_console.ledger.moves import Guard
from starforge_console.wakeups import BACKEND, QUEUE, Wakeups, job_topic

_log = structlog.get_logger("maintenance")


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceControl:
    """Begins and ends it. What is kept of it is one fact of the ledger, so that a restart changes nothing."""

    ledger: Database
    clock: Clock
    wakeups: Wakeups

    async def look(self) -> tuple[Maintenance | None, MaintenanceCounts]:
        """The maintenance that lasts now, if one does, and how far it has got."""
        return await self.ledger.read(lambda c: (find_maintenance(c), count_in_maintenance(c)))

    async def begin(self, by: str, reason: str) -> None:
        """Start nothing from now on and ask all that runs to pause. Said again, it asks whoever was missed."""
        guard = Guard(now=self.clock.now(), monotonic=self.clock.monotonic())
        begun, asked = await self.ledger.write(
            audited(
                lambda c: begin_maintenance(c, by, reason, guard),
                lambda done: say("did.maintenance_begun", n=len(done[1])),
            )
        )
        self.wakeups.notify(BACKEND, QUEUE, *map(job_topic, asked))
        _log.warning("in maintenance", by=begun.by, reason=begun.reason, asked=len(asked))

    async def end(self) -> None:
        """Let jobs start again; those that were paused for it are queued at once. Fine when there is none."""
        told = say("did.maintenance_ended")
        ended = await self.ledger.write(audited(end_maintenance, lambda done: None if done is None else told))
        self.wakeups.notify(QUEUE)
        if ended is not None:
            _log.warning("the maintenance is over", began_by=ended.by, lasted_s=self.clock.now() - ended.since)
