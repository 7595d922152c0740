"""One simulated install, moved by steps: people wish, loops work, time passes, and things break."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, Final

from sqlalchemy import select

from core.tests.containers.fake_engine import Fault, Kind
from simulation.install import Install
from simulation.machines import ENDLESS, build_request_next_door
from simulation.mutants import Mutant
from simulation.people import People
from simulation.steps import WISHES, Step, What
from simulation.wire import Harm, Mishap
from starforge.contract.states import HOLDS_A_PLACE, DesiredState, JobState
from starforge_console.domain.wishes import Wish
from starforge_console.ledger.in_flight import void_leases
from starforge_console.ledger.tables import jobs

_BUSY: Final = [state.value for state in HOLDS_A_PLACE | {JobState.QUEUED}]
_ROUNDS_AT_MOST: Final = 100
_TURNS_AT_MOST: Final = 24
_PASSES: Final = (1.0, 5.0, 31.0, 90.0, 200.0, 700.0)
_CLOCK_STEPS: Final = (-7200.0, -900.0, -300.0, -60.0, 60.0, 300.0, 7200.0)
_CLOCK_OFF_S: Final = 7200.0
_METHODS: Final = ("any", "list", "create", "start", "remove", "stop")
_CALLS: Final = ("launch", "launch", "fence", "stop", "")
_KINDS: Final = (Kind.REFUSED, Kind.LOST, Kind.KILLED_BEFORE, Kind.KILLED_AFTER, Kind.FAILED_START)
_MEANWHILE: Final = (What.STOP, What.PAUSE, What.STOP, What.DRAIN_WITH_PAUSE, What.STOP, What.RESUME, None)


class World(Install):
    """The install and whatever befalls it."""

    def __init__(self, folder: Path, seed: int, mutant: Mutant) -> None:
        super().__init__(folder, seed, mutant)
        self.people = People(self)

    async def do(self, step: Step) -> None:
        """Let `step` happen."""
        self.events[step.what.value] += 1
        if step.what in WISHES:
            self.people.do(step)
        else:
            await self._actions()[step.what](step)
        self.write_exit_records()

    async def settle(self) -> None:
        """Heal everything and let the console work until nothing more happens, however long that takes."""
        self.fleet.harms.clear()
        for machine in self.machines:
            machine.is_cut_off = False
        self.fleet.deliver_late()
        self.people.take_everything_back()
        for job in self.submitted:
            if self.assembly.program_of[job] in ENDLESS:
                self.people.wish(job, Wish(desired=DesiredState.STOP))
        for _ in range(_ROUNDS_AT_MOST):
            await self._round()
            self.let_pass(240.0)
            self.write_exit_records()
            if not self._is_busy():
                break

    async def close(self) -> None:
        """End the console and its machines."""
        await self.loops.close()
        for machine in self.machines:
            machine.close()
        self.ledger.close()

    def _is_busy(self) -> bool:
        """Whether some job waits, runs, or will run again."""
        goes_on = (jobs.c.state == JobState.PAUSED.value) & jobs.c.goes_on
        busy = jobs.c.state.in_(_BUSY) | jobs.c.retry_at.is_not(None) | goes_on
        asked = select(jobs.c.id).where(busy).limit(1)
        return self.read(lambda connection: connection.execute(asked).first()) is not None

    async def _round(self) -> None:
        await self.loops.dequeue.run_once()
        await self.loops.settle_launches()
        await self.loops.reconcile.run_once()
        await self.loops.settle_launches()
        await self.loops.cleanup.run_once()
        await self.sweep.run_once()

    def _actions(self) -> dict[What, Callable[[Step], Awaitable[None]]]:
        return {
            What.DEQUEUE: self._dequeue,
            What.RECONCILE: self._reconcile,
            What.CLEANUP: self._cleanup,
            What.SWEEP: self._sweep,
            What.TOGETHER: self._together,
            What.TIME: self._let_pass,
            What.CONSOLE_RESTARTS: self._restart_console,
            What.CLOCK_STEPS: self._set_clock,
            What.DAEMON_DIES: self._kill_daemon,
            What.ENGINE_RESTARTS: self._restart_engine,
            What.REBOOT: self._reboot,
            What.CUT_OFF: self._cut_off,
            What.HEAL: self._heal,
            What.WIRE: self._harm_wire,
            What.ENGINE_FAULT: self._harm_engine,
            What.NEIGHBOUR: self._let_neighbour_launch,
            What.LATE_ARRIVES: self._deliver_late,
        }

    async def _dequeue(self, step: Step) -> None:
        del step
        self.judge.is_alone = True
        await self.loops.dequeue.run_once()
        self.judge.is_alone = False
        await self.loops.settle_launches()

    async def _reconcile(self, step: Step) -> None:
        for _ in range(1 + step.a % 2):
            await self.loops.reconcile.run_once()
            self.let_pass((0.0, 40.0)[step.b % 2])
        await self.loops.settle_launches()

    async def _cleanup(self, step: Step) -> None:
        del step
        await self.loops.cleanup.run_once()

    async def _sweep(self, step: Step) -> None:
        del step
        await self.sweep.run_once()

    async def _together(self, step: Step) -> None:
        parts: list[Coroutine[Any, Any, object]] = [
            self.loops.dequeue.run_once(),
            self.loops.reconcile.run_once(),
            self.loops.cleanup.run_once(),
            self.sweep.run_once(),
        ]
        meanwhile = _MEANWHILE[step.b % len(_MEANWHILE)]
        if meanwhile is not None:
            parts.append(self._wish_meanwhile(Step(meanwhile, step.a, step.b // len(_MEANWHILE))))
        self.chance.shuffle(parts)
        await asyncio.gather(*parts)
        await self.loops.settle_launches()

    async def _wish_meanwhile(self, step: Step) -> None:
        for _ in range(self.chance.randrange(_TURNS_AT_MOST)):
            await asyncio.sleep(0)
        self.events[f"{step.what}, beside all loops"] += 1
        self.people.do(step)

    async def _let_pass(self, step: Step) -> None:
        self.let_pass(_PASSES[step.a % len(_PASSES)])

    async def _restart_console(self, step: Step) -> None:
        """It is killed in the middle of a pass, and the next one begins as `Scheduler.start` does."""
        if step.a % 2:
            working = asyncio.create_task(self._round())
            for _ in range(step.b % 12):
                await asyncio.sleep(0)
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
        await self.loops.close()
        self.loops = self.open_console()
        await self.ledger.write(void_leases)
        await self.loops.reconcile.run_once()
        await self.loops.settle_launches()

    async def _set_clock(self, step: Step) -> None:
        offset = self.clock.offset + _CLOCK_STEPS[step.a % len(_CLOCK_STEPS)]
        self.clock.offset = min(_CLOCK_OFF_S, max(-_CLOCK_OFF_S, offset))

    async def _kill_daemon(self, step: Step) -> None:
        self.machine(step).kill_daemon()

    async def _restart_engine(self, step: Step) -> None:
        self.machine(step).restart_engine(live_restore=step.b % 2 == 0)

    async def _reboot(self, step: Step) -> None:
        self.machine(step).reboot()

    async def _cut_off(self, step: Step) -> None:
        self.machine(step).is_cut_off = True

    async def _heal(self, step: Step) -> None:
        self.machine(step).is_cut_off = False

    async def _harm_wire(self, step: Step) -> None:
        harm = Harm(list(Mishap)[step.a % len(Mishap)], _CALLS[step.b % len(_CALLS)])
        self.fleet.harms.append(harm)
        if harm == (Mishap.REPLY_LOST, "launch") and step.b // len(_CALLS) % 2:
            self.fleet.harms.append(Harm(Mishap.REQUEST_LOST, "observe"))  # the line is still broken at the next look

    async def _harm_engine(self, step: Step) -> None:
        kind = _KINDS[step.a % len(_KINDS)]
        method = "start" if kind is Kind.FAILED_START else _METHODS[step.b % len(_METHODS)]
        self.machine(step).arm(Fault(kind, method, step.b % 2, lag=step.b % 4 == 0))

    async def _let_neighbour_launch(self, step: Step) -> None:
        """At once, or between two calls of a launch that is under way."""
        machine = self.machine(step)
        self.events["launches next door"] += 1
        request = build_request_next_door(self.events["launches next door"], 1 + step.b % 2)
        if step.b % 7 == 0:
            machine.let_neighbour_launch(request)
            return
        method = ("create", "create", "start", "list")[step.b % 4]
        kind = Kind.WITHIN if step.b % 5 == 0 else Kind.BEFORE
        machine.arm(Fault(kind, method, act=lambda: machine.let_neighbour_launch(request)))

    async def _deliver_late(self, step: Step) -> None:
        del step
        self.fleet.deliver_late()
