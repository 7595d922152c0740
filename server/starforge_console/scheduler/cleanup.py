"""Cleanup: reads what an ended attempt left, then removes it from its backend once it has been kept long enough."""

import asyncio
from typing import Final

import structlog

from starforge.contract.ids import AttemptId
from starforge.errors import BackendUnreachable, Busy, StarForgeError
from starforge_console.ledger.endings import EndedAttempt, list_unclean, note_cleaned, note_finalised
from starforge_console.scheduler.deps import SchedulerDeps
from starforge_console.scheduler.tasks import KeyedTasks
from starforge_console.wakeups import job_topic

AT_ONCE: Final = 8
"""So many attempts are read side by side: a large spool holds up few others."""

_log = structlog.get_logger("cleanup")


class Cleanup:
    """One round over the attempts that ended and are not cleaned up."""

    def __init__(self, deps: SchedulerDeps) -> None:
        self._deps = deps
        self._work = KeyedTasks[AttemptId]("clean up")

    async def run_once(self) -> float:
        """Finalise and clean up what is due; gives the seconds until the next one is."""
        turns = asyncio.Semaphore(AT_ONCE)
        unclean = await self._deps.ledger.read(list_unclean)
        waits_s = await asyncio.gather(*(self._in_turn(attempt, turns) for attempt in unclean))
        return max(0.05, min([self._deps.reconcile_s, *waits_s]))

    async def close(self) -> None:
        """Cut off what is under way; the next process begins it anew."""
        await self._work.close()

    async def _in_turn(self, attempt: EndedAttempt, turns: asyncio.Semaphore) -> float:
        """When to look at it again (seconds). One that hangs gives its turn back, and goes on by itself."""
        waits_s: list[float] = []

        async def work() -> None:
            waits_s.append(await self._try(attempt))

        async with turns:
            self._work.begin(attempt.id, work)
            await self._work.wait([attempt.id], self._deps.round_limit_s)
        return waits_s[0] if waits_s else self._deps.reconcile_s

    async def _try(self, attempt: EndedAttempt) -> float:
        try:
            return await self._attempt(attempt)
        except BackendUnreachable as error:
            _log.warning("cleanup waits for a backend", attempt=attempt.id, error=str(error))
        except Busy as error:  # a large spool is read in turns, and a full disk is waited for
            _log.info("an attempt's spool is read on later", attempt=attempt.id, error=str(error))
            return error.retry_after_s
        except (StarForgeError, OSError) as error:  # one bad attempt must not hold up the others
            _log.error("an attempt cannot be cleaned up", attempt=attempt.id, error=str(error))
        return self._deps.reconcile_s

    async def _attempt(self, attempt: EndedAttempt) -> float:
        if attempt.finalised_at is None:
            outputs, produced_bytes = await self._deps.records.finalise(attempt)
            now = self._deps.clock.now()
            await self._deps.ledger.write(
                lambda connection: note_finalised(connection, attempt.id, now, outputs, produced_bytes)
            )
            self._deps.wakeups.notify(job_topic(attempt.job))
            kept_s = 0.0
        else:
            kept_s = self._deps.clock.now() - attempt.finalised_at
        left_s = self._deps.container_retention_s - kept_s
        if left_s > 0:
            return left_s
        executor = self._deps.executors.get(attempt.fleet)
        if executor is not None:
            await executor.cleanup(attempt.id)
            now = self._deps.clock.now()
            await self._deps.ledger.write(lambda connection: note_cleaned(connection, attempt.id, now))
            self._deps.wakeups.notify(job_topic(attempt.job))
        return self._deps.reconcile_s
