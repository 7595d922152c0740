"""What the fleets offer: every one is asked at once, and one that takes long is not waited for twice."""

from collections.abc import Mapping
from functools import partial

from starforge.contract.executor import Executor, FleetView
from starforge.contract.observation import NoSignal
from starforge.said.sentence import say
from starforge_console.scheduler.deps import SchedulerDeps
from starforge_console.scheduler.tasks import KeyedTasks
from starforge_console.wakeups import QUEUE


class Looks:
    """Asks executors for their capacity.

    An answer that comes late is kept for the next look, which it brings about. It is older than that look's own ledger
    reading, and so it errs on the side of what is held: attempts that it lacks are claimed from it.
    """

    def __init__(self, deps: SchedulerDeps) -> None:
        self._deps = deps
        self._asking = KeyedTasks[str]("ask for capacity")
        self._answers: dict[str, FleetView | NoSignal] = {}
        self._left: set[str] = set()

    async def load(self) -> Mapping[str, FleetView]:
        """Each fleet's view; one that does not answer within the round's limit is without machines, and says why."""
        executors, limit_s = self._deps.executors, self._deps.round_limit_s
        fresh = [fleet for fleet in executors if fleet not in self._answers and fleet not in self._asking]
        for fleet in fresh:
            self._asking.begin(fleet, partial(self._ask, fleet, executors[fleet]))
        await self._asking.wait(fresh, limit_s)
        self._left |= set(self._asking.keys())
        late = NoSignal(reason=say("host.no_answer", s=f"{limit_s:g}"))
        return {fleet: _build_view(fleet, self._answers.pop(fleet, late)) for fleet in executors}

    async def close(self) -> None:
        """Cut off what is under way."""
        await self._asking.close()

    async def _ask(self, fleet: str, executor: Executor) -> None:
        self._answers[fleet] = await executor.capacity()
        if fleet in self._left:
            self._left.discard(fleet)
            self._deps.wakeups.notify(QUEUE)


def _build_view(fleet: str, answer: FleetView | NoSignal) -> FleetView:
    if isinstance(answer, NoSignal):
        return FleetView(fleet=fleet, nodes=(), complete=False, why_not=answer.reason)
    return answer
