"""Consoles and hosts that lack one guard each: a simulation must find every one of them out."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

from core.tests.containers.machine import MakeHost
from core.tests.containers.mutants import (
    FencesIntoTheVoid,
    WithoutFence,
    WithoutLock,
    WithoutSecondLook,
    with_part,
)
from server.tests.scheduler.support import Loops
from simulation.wire import WireFleet
from starforge.containers.host import ContainerHost
from starforge.contract.ids import AttemptId
from starforge.contract.observation import Gone, NoSignal, Observation
from starforge_console.domain.job import JobInFlight
from starforge_console.domain.reconcile import Move
from starforge_console.ledger.in_flight import list_in_flight
from starforge_console.scheduler.apply import Apply
from starforge_console.scheduler.deps import SchedulerDeps
from starforge_console.scheduler.launch import Launcher
from starforge_console.scheduler.reconcile import Reconcile


class TakesSilenceForGone(WireFleet):
    """A machine that does not answer is taken for one that holds nothing."""

    async def observe(self, attempts: Collection[AttemptId]) -> Mapping[AttemptId, Observation]:
        seen = await super().observe(attempts)
        return {one: Gone(at=0.0) if isinstance(what, NoSignal) else what for one, what in seen.items()}

    async def fence(self, attempt: AttemptId) -> Observation:
        seen = await super().fence(attempt)
        return Gone(at=0.0, fenced=True) if isinstance(seen, NoSignal) else seen


class StopsInVain(WireFleet):
    """A stop is acknowledged and forgotten."""

    async def stop(self, attempt: AttemptId, remaining_s: float) -> None:
        del attempt, remaining_s


class BlindApply(Apply):
    """What was decided is applied whatever has happened to the job since."""

    async def decision(self, job: JobInFlight, decision: Move) -> bool:
        found = self._deps.ledger.read_now(lambda connection: list_in_flight(connection, [job.id]))
        stale = replace(job, version=found[0].version) if found and found[0].state is job.state else job
        return await super().decision(stale, decision)


class BlindLoops(Loops):
    """Loops whose moves are not guarded."""

    def __init__(self, deps: SchedulerDeps) -> None:
        super().__init__(deps)
        blind = BlindApply(deps)
        self.launcher = Launcher(deps, blind)
        self.reconcile = Reconcile(deps, blind, self.launcher)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """What is built in another way than the product builds it."""

    make_host: MakeHost = ContainerHost
    wire: type[WireFleet] = WireFleet
    loops: Callable[[SchedulerDeps], Loops] = Loops


NO_MUTANT: Final = ""
MUTANTS: Final[Mapping[str, Mutant]] = {
    "lock left out": Mutant(make_host=with_part("_launcher", WithoutLock)),
    "second look left out": Mutant(make_host=with_part("_launcher", WithoutSecondLook)),
    "fence left out": Mutant(make_host=with_part("_launcher", WithoutFence)),
    "fence confirmed unasked": Mutant(make_host=FencesIntoTheVoid),
    "guard left out": Mutant(loops=BlindLoops),
    "NoSignal taken for gone": Mutant(wire=TakesSilenceForGone),
    "stop forgotten": Mutant(wire=StopsInVain),
}


def find_mutant(name: str) -> Mutant:
    """The mutant of that name, by which processes name it to each other; NO_MUTANT is the product itself."""
    return Mutant() if name == NO_MUTANT else MUTANTS[name]
