"""Sweep: removes idle containers that the ledger does not know, whenever their machine is there to be asked."""

from typing import Final

import structlog

from starforge.contract.executor import Executor
from starforge.contract.ids import AttemptId
from starforge.contract.observation import NoSignal, Phase, Seen
from starforge.errors import StarForgeError
from starforge_console.ledger.endings import list_known
from starforge_console.ledger.restored import find_restored
from starforge_console.scheduler.deps import SchedulerDeps

_IDLE: Final = frozenset({Phase.EXITED, Phase.PREPARING})
"""What was made after its attempt had been given up never starts, and would hold its GPUs for ever."""

ROUNDS_BETWEEN: Final = 4
"""Such leftovers are rare: one look in so many of the reconciliation's."""

_log = structlog.get_logger("sweep")


class Sweep:
    """What was left by a console that died, made by an engine too late, or came to light by a restored ledger."""

    def __init__(self, deps: SchedulerDeps) -> None:
        self._deps = deps

    async def run_once(self) -> float:
        """Remove what is idle and not known; what runs stays, whoever knows it. Gives the seconds to the next.

        A ledger that was restored and does not know yet what is newer than itself removes nothing.
        """
        if await self._deps.ledger.read(find_restored) is not None:
            return ROUNDS_BETWEEN * self._deps.reconcile_s
        for executor in list(self._deps.executors.values()):
            for attempt in await self._find_unknown(executor):
                await self._remove(executor, attempt)
        return ROUNDS_BETWEEN * self._deps.reconcile_s

    async def _find_unknown(self, executor: Executor) -> list[AttemptId]:
        held = await executor.inventory()
        if isinstance(held, NoSignal):
            return []
        idle = [attempt for attempt, one in held.items() if isinstance(one, Seen) and one.phase in _IDLE]
        if not idle:
            return []
        # After the inventory: an attempt is in the ledger before its launch, so whatever is missing now is unknown.
        known = await self._deps.ledger.read(list_known)
        return [attempt for attempt in idle if attempt not in known]

    async def _remove(self, executor: Executor, attempt: AttemptId) -> None:
        try:
            await executor.cleanup(attempt)
        except StarForgeError as error:
            _log.info("an unknown container is left for the next sweep", attempt=attempt, error=str(error))
        else:
            _log.info("removed what no ledger knows", attempt=attempt)
