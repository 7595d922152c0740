"""After a restore: nothing starts until every machine has told what it holds, and what is newer is not doubled."""

from functools import partial
from typing import Final

import structlog

from starforge.contract.observation import NoSignal
from starforge_console.ledger.restored import (
    find_restored,
    has_newer,
    hold_newer,
    list_silent_nodes,
    note_unknown,
    settle_restored,
)
from starforge_console.scheduler.deps import SchedulerDeps
from starforge_console.wakeups import job_topic

ASK_AGAIN_S: Final = 5.0

_log = structlog.get_logger("restored")


class AfterRestore:
    """The first look of a restored console, as often as it takes; and the hold on jobs that have newer attempts."""

    def __init__(self, deps: SchedulerDeps) -> None:
        self._deps = deps
        self._told: list[str] = []

    async def run_once(self) -> float:
        """Hold what has to be held; gives the seconds until the next look is due."""
        restored, some = await self._deps.ledger.read(lambda c: (find_restored(c), has_newer(c)))
        if restored is None and not some:
            return self._deps.reconcile_s
        silent = [] if restored is None else await self._merge(restored.at)
        await self._hold()
        if restored is None:
            return self._deps.reconcile_s
        if not silent:
            await self._deps.ledger.write(settle_restored)
            _log.info("every machine has told what it holds: jobs start again")
            return 0.05
        if silent != self._told:
            _log.warning("restored: nothing starts until these have told what they hold", silent=", ".join(silent))
            self._told = silent
        return ASK_AGAIN_S

    async def _merge(self, since: float) -> list[str]:
        """Remember what backends hold and the ledger does not know; gives the fleets and machines that are silent."""
        silent = []
        for fleet, executor in list(self._deps.executors.items()):
            held = await executor.inventory()
            if isinstance(held, NoSignal):
                silent.append(fleet)
                continue
            found = await self._deps.ledger.write(partial(note_unknown, held=set(held), place=f"fleet {fleet}"))
            for one in found:
                _log.warning("newer than the backup", job=one.job, attempt=one.number, fleet=fleet)
        return silent + await self._deps.ledger.read(lambda connection: list_silent_nodes(connection, since))

    async def _hold(self) -> None:
        guard = self._deps.guard()
        held = await self._deps.ledger.write(lambda connection: hold_newer(connection, guard))
        for job in held:
            _log.warning("held: it has an attempt that is newer than the backup", job=job)
            self._deps.wakeups.notify(job_topic(job))
