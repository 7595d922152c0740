"""The scheduler: recovery first, then the loops, for as long as the console runs."""

import asyncio
from typing import Final

import structlog

from starforge.contract.executor import Executor
from starforge.contract.observation import NoSignal
from starforge.errors import BackendUnreachable
from starforge_console.ledger.endings import list_known
from starforge_console.ledger.in_flight import void_leases
from starforge_console.ledger.restored import find_restored
from starforge_console.scheduler.apply import Apply
from starforge_console.scheduler.cleanup import Cleanup
from starforge_console.scheduler.deps import SchedulerDeps
from starforge_console.scheduler.dequeue import Dequeue
from starforge_console.scheduler.launch import Launcher
from starforge_console.scheduler.loop import Loop
from starforge_console.scheduler.reconcile import Reconcile
from starforge_console.scheduler.sweep import Sweep
from starforge_console.wakeups import BACKEND, ENDINGS, QUEUE

MERGE_LIMIT_S: Final = 60.0
"""How long the loops' start waits until everything that a backend holds has been merged."""

SWEEP: Final = "sweep"
"""Nobody is in a hurry for it: its loop goes by the clock alone."""

_log = structlog.get_logger("scheduler")


class Scheduler:
    """All loops of one console."""

    def __init__(self, deps: SchedulerDeps) -> None:
        self._deps = deps
        apply = Apply(deps)
        self._launcher = Launcher(deps, apply)
        self._reconcile = Reconcile(deps, apply, self._launcher)
        self._cleanup = Cleanup(deps)
        self._dequeue = Dequeue(deps, self._launcher)
        wakeups = deps.wakeups
        self._loops = (
            Loop("dequeue", QUEUE, wakeups, self._dequeue.run_once, deps.figures),
            Loop("reconcile", BACKEND, wakeups, self._reconcile.run_once, deps.figures),
            Loop("cleanup", ENDINGS, wakeups, self._cleanup.run_once, deps.figures),
            Loop("sweep", SWEEP, wakeups, Sweep(deps).run_once, deps.figures),
        )
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Merge what every backend that answers holds, then start the loops."""
        await self._deps.ledger.write(void_leases)
        for executor in self._deps.executors.values():
            await executor.start(lambda: self._deps.wakeups.notify(BACKEND, QUEUE))
        await asyncio.gather(*(self._recover(fleet, one) for fleet, one in self._deps.executors.items()))
        await self._dequeue.look()
        self._tasks = [asyncio.create_task(loop.run()) for loop in self._loops]

    async def close(self) -> None:
        """Stop the loops. Attempts are untouched; whoever starts next finds them."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._dequeue.close()
        await self._reconcile.close()
        await self._cleanup.close()
        await self._launcher.close()
        for executor in self._deps.executors.values():
            await executor.close()

    async def _recover(self, fleet: str, executor: Executor) -> None:
        held = await executor.inventory()
        if isinstance(held, NoSignal):
            _log.warning("a backend did not answer at the start", fleet=fleet, reason=held.reason)
            return
        await self._reconcile.run_once(MERGE_LIMIT_S)
        if await self._deps.ledger.read(find_restored) is not None:
            return  # what it does not know is newer than itself, and is looked at first
        try:
            swept = await executor.sweep(await self._deps.ledger.read(list_known))
        except BackendUnreachable as error:
            _log.warning("a backend went away before it was swept", fleet=fleet, reason=str(error))
            return
        for name in swept:
            _log.info("removed what no ledger knows", fleet=fleet, container=name)
