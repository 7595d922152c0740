"""Puts queued jobs where an administrator wants them."""

from dataclasses import dataclass

import structlog

from starforge.contract.ids import JobId
from starforge.contract.queue import QueueMove
from starforge_console.clock import Clock
from starforge_console.ledger.database import Database
from starforge_console.ledger.queue_places import put_in_queue
from starforge_console.wakeups import QUEUE, Wakeups, job_topic

_log = structlog.get_logger("queue")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePlaces:
    """The order of the queue, as far as it is not the scheduler's own."""

    ledger: Database
    clock: Clock
    wakeups: Wakeups

    async def put(self, job_id: str, to: QueueMove, by: str) -> None:
        """Let a queued job stand first, last, or where it belongs; fine when it does. Raises NotFound, Conflict."""
        now = self.clock.now()
        if await self.ledger.write(lambda c: put_in_queue(c, JobId(job_id), to, by, now)):
            self.wakeups.notify(QUEUE, job_topic(job_id))
            _log.info("moved in the queue", job=job_id, to=to, by=by)
