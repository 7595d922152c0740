"""Consoles and hosts that lack one guard each: a simulation must find every one of them out."""

from abc import ABC, abstractmethod
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
from starforge.containers.stopping import Stops
from starforge.contract.ids import AttemptId
from starforge.contract.observation import Gone, NoSignal, Observation
from starforge_console.domain.job import JobInFlight
from starforge_console.domain.opening import Asker, Windows
from starforge_console.domain.quota import Usage
from starforge_console.domain.reconcile import Move
from starforge_console.domain.schedule import Snapshot
from starforge_console.ledger.in_flight import list_in_flight
from starforge_console.scheduler.apply import Apply
from starforge_console.scheduler.deps import SchedulerDeps
from starforge_console.scheduler.dequeue import Dequeue
from starforge_console.scheduler.launch import Launcher
from starforge_console.scheduler.reconcile import Reconcile
from starforge_console.scheduler.windows import OpeningHours


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


class Kills(Stops):
    """Whoever is told to end has no time for it."""

    def begin(self, attempt: AttemptId, container: str, kill_after_s: float) -> None:
        del kill_after_s
        super().begin(attempt, container, 1.0)


class CarelessDequeue(Dequeue, ABC):
    """A pass whose snapshot lacks something."""

    async def _decide(self, snapshot: Snapshot) -> bool:
        return await super()._decide(self.leave_out(snapshot))

    @abstractmethod
    def leave_out(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot as this pass sees it."""


class IgnoresQuotas(CarelessDequeue):
    """Nobody counts what is held."""

    def leave_out(self, snapshot: Snapshot) -> Snapshot:
        return replace(snapshot, usage=Usage())


class BreaksReservations(CarelessDequeue):
    """What would delay one that was promised a start is started."""

    def leave_out(self, snapshot: Snapshot) -> Snapshot:
        return replace(snapshot, releases={})


class PassesForEver(CarelessDequeue):
    """Nobody counts how often a job was passed."""

    def leave_out(self, snapshot: Snapshot) -> Snapshot:
        return replace(snapshot, queued=[job._replace(passed=0) for job in snapshot.queued])


class IgnoresWindows(CarelessDequeue):
    """What is closed counts as open for what starts."""

    def leave_out(self, snapshot: Snapshot) -> Snapshot:
        return replace(snapshot, find_closed=lambda _job: {}, explain_hold=lambda _job: ())


class ClosesByTheClock(OpeningHours):
    """An edge works whenever the clock shows its time, though the attempt began behind it."""

    async def _close(self, windows: Windows, job: JobInFlight, asker: Asker) -> float | None:
        never_began = replace(job, attempt=replace(job.attempt, dequeued_at=0.0))
        return await super()._close(windows, never_began, asker)


class ForgetfulDequeue(Dequeue):
    """Looks at windows by the clock alone."""

    def __init__(self, deps: SchedulerDeps, launcher: Launcher) -> None:
        super().__init__(deps, launcher)
        self._hours = ClosesByTheClock(deps)


def with_dequeue(kind: type[Dequeue]) -> Callable[[SchedulerDeps], Loops]:
    """Makes loops whose passes are of this kind."""

    def make(deps: SchedulerDeps) -> Loops:
        loops = Loops(deps)
        loops.dequeue = kind(deps, loops.launcher)
        return loops

    return make


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """What is built in another way than the product builds it, and the theme of the seeds that are to find it out."""

    make_host: MakeHost = ContainerHost
    wire: type[WireFleet] = WireFleet
    loops: Callable[[SchedulerDeps], Loops] = Loops
    theme: str = ""


NO_MUTANT: Final = ""
MUTANTS: Final[Mapping[str, Mutant]] = {
    "lock left out": Mutant(make_host=with_part("_launcher", WithoutLock), theme="machines"),
    "second look left out": Mutant(make_host=with_part("_launcher", WithoutSecondLook), theme="machines"),
    "fence left out": Mutant(make_host=with_part("_launcher", WithoutFence), theme="answers"),
    "fence confirmed unasked": Mutant(make_host=FencesIntoTheVoid, theme="answers"),
    "guard left out": Mutant(loops=BlindLoops, theme="races"),
    "NoSignal taken for gone": Mutant(wire=TakesSilenceForGone, theme="answers"),
    "stop forgotten": Mutant(wire=StopsInVain, theme="pauses"),
    "a pause that loses the checkpoint": Mutant(make_host=with_part("_stops", Kills), theme="pauses"),
    "a quota ignored": Mutant(loops=with_dequeue(IgnoresQuotas), theme="room"),
    "a reservation broken": Mutant(loops=with_dequeue(BreaksReservations), theme="room"),
    "passed for ever": Mutant(loops=with_dequeue(PassesForEver), theme="room"),
    "a window ignored": Mutant(loops=with_dequeue(IgnoresWindows), theme="hours"),
    "an edge fired twice": Mutant(loops=with_dequeue(ForgetfulDequeue), theme="hours"),
}


def find_mutant(name: str) -> Mutant:
    """The mutant of that name, by which processes name it to each other; NO_MUTANT is the product itself."""
    return Mutant() if name == NO_MUTANT else MUTANTS[name]
