"""Puts queued jobs where an administrator wants them."""

from dataclasses import dataclass

import structlog

from starforge.contract.ids import JobId
from starforge.contract.queue import QueueMove
from starforge.said.sentence import Said, say
from starforge_console.clock import Clock
from starforge_console.ledger.audit import audited
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
        told = _tell(job_id, to)
        moving = audited(lambda c: put_in_queue(c, JobId(job_id), to, by, now), lambda done: told if done else None)
        if await self.ledger.write(moving):
            self.wakeups.notify(QUEUE, job_topic(job_id))
            _log.info("moved in the queue", job=job_id, to=to, by=by)


def _tell(job_id: str, to: QueueMove) -> Said:
    match to:
        case "first":
            return say("did.queue_first", job=job_id)
        case "last":
            return say("did.queue_last", job=job_id)
        case "release":
            return say("did.queue_release", job=job_id)
