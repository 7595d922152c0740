"""Sweep: removes ended containers that the ledger does not know, whenever their machine is there to be asked."""

from typing import Final

import structlog

from starforge.contract.executor import Executor
from starforge.contract.ids import AttemptId
from starforge.contract.observation import NoSignal, Phase, Seen
from starforge.errors import StarForgeError
from starforge_console.ledger.endings import list_known
from starforge_console.scheduler.deps import SchedulerDeps

ROUNDS_BETWEEN: Final = 4
"""Such leftovers are rare: one look in so many of the reconciliation's."""

_log = structlog.get_logger("sweep")


class Sweep:
    """What was left by a console that died, or came to light by a restored ledger, after the sweep of the start."""

    def __init__(self, deps: SchedulerDeps) -> None:
        self._deps = deps

    async def run_once(self) -> float:
        """Remove what has ended and is not known; what runs stays, whoever knows it. Gives the seconds to the next."""
        for executor in list(self._deps.executors.values()):
            for attempt in await self._find_unknown(executor):
                await self._remove(executor, attempt)
        return ROUNDS_BETWEEN * self._deps.reconcile_s

    async def _find_unknown(self, executor: Executor) -> list[AttemptId]:
        held = await executor.inventory()
        if isinstance(held, NoSignal):
            return []
        ended = [attempt for attempt, one in held.items() if isinstance(one, Seen) and one.phase is Phase.EXITED]
        if not ended:
            return []
        # After the inventory: an attempt is in the ledger before its launch, so whatever is missing now is unknown.
        known = await self._deps.ledger.read(list_known)
        return [attempt for attempt in ended if attempt not in known]

    async def _remove(self, executor: Executor, attempt: AttemptId) -> None:
        try:
            await executor.cleanup(attempt)
        except StarForgeError as error:
            _log.info("an unknown container is left for the next sweep", attempt=attempt, error=str(error))
        else:
            _log.info("removed what no ledger knows", attempt=attempt)
