"""One simulated install: a real ledger and the real loops of a console, over machines in virtual time."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, select

from core.tests.containers.fake_engine import Fault, Kind
from server.tests.scheduler.support import KeptRecords, Loops, empty_ledger, make_record
from simulation.console import Assembly, StillDatabase, VirtualClock
from simulation.machines import ENDLESS, PROGRAMS, Machine, build_request_next_door
from simulation.mutants import Mutant
from simulation.steps import Step, What
from simulation.wire import FLEET, Harm, Mishap
from starforge.contract.ids import AttemptId, Digest, JobId
from starforge.contract.launch import PoolRequest
from starforge.contract.states import HOLDS_A_PLACE, DesiredState, JobState
from starforge.errors import Conflict
from starforge_console.domain.quota import USER, Holder
from starforge_console.domain.wishes import Wish
from starforge_console.ledger.accounts import add_user
from starforge_console.ledger.in_flight import void_leases
from starforge_console.ledger.jobs import NewJob, admit
from starforge_console.ledger.moves import Guard
from starforge_console.ledger.quotas import change_parts
from starforge_console.ledger.tables import attempts, jobs
from starforge_console.ledger.wishes import wish, wish_resume, wish_retry
from starforge_console.scheduler.deps import SchedulerDeps
from starforge_console.wakeups import Wakeups

MACHINES: Final = {"n1": 2, "n2": 4, "n3": 1}
USERS: Final = ("ada", "bob")
LIMIT_OF_BOB: Final = 3
_DIGEST: Final = Digest("sha256:" + "0" * 64)
_BUSY: Final = [state.value for state in HOLDS_A_PLACE | {JobState.QUEUED}]
_ROUNDS_AT_MOST: Final = 80
_TURNS_AT_MOST: Final = 24
_PASSES: Final = (1.0, 5.0, 31.0, 90.0, 700.0)
_CLOCK_STEPS: Final = (-7200.0, -60.0, 60.0, 7200.0)
_METHODS: Final = ("any", "list", "create", "start", "remove", "stop")
_CALLS: Final = ("launch", "launch", "fence", "stop", "")
_KINDS: Final = (Kind.REFUSED, Kind.LOST, Kind.KILLED_BEFORE, Kind.KILLED_AFTER, Kind.FAILED_START)


class World:
    """One install, moved by steps. `events` counts what befell it."""

    def __init__(self, folder: Path, seed: int, mutant: Mutant) -> None:
        self.chance = random.Random(seed)
        self.mutant = mutant
        self.events: Counter[str] = Counter()
        self.clock = VirtualClock()
        (folder / "ledger.db").write_bytes(empty_ledger())
        self.ledger = StillDatabase(folder / "ledger.db", "ledger")
        self.machines = [
            Machine(name, gpus, folder, self.chance.randrange(1 << 30), mutant.make_host)
            for name, gpus in MACHINES.items()
        ]
        self.fleet = mutant.wire(self.machines, self.locate, self.chance)
        self.assembly = Assembly()
        self.records = KeptRecords()
        self.wakeups = Wakeups()
        self._places: dict[AttemptId, str] = {}
        self.submitted: list[JobId] = []
        self.stopped: dict[JobId, int] = {}
        """Jobs whose stop was acknowledged, with the number of the attempt that they had then."""
        self._processes = self._named = 0
        self.users = self.ledger.write_now(_add_users)
        self.loops = self._open_console()

    async def do(self, step: Step) -> None:
        """Let `step` happen."""
        self.events[step.what.value] += 1
        await self._actions()[step.what](step)
        self._write_exit_records()

    def locate(self, attempt: AttemptId) -> str | None:
        """The machine of an attempt, as the ledger has it; it never changes."""
        if attempt not in self._places:
            found = select(attempts.c.node).where(attempts.c.id == attempt)
            node = self.ledger.read_now(lambda connection: connection.execute(found).scalar())
            if node is None:
                return None
            self._places[attempt] = node
        return self._places[attempt]

    async def settle(self) -> None:
        """Heal everything and let the console work until nothing more happens, however long that takes."""
        self.fleet.harms.clear()
        for machine in self.machines:
            machine.is_cut_off = False
        self.fleet.deliver_late()
        for job in self.submitted:
            if self.assembly.program_of[job] in ENDLESS:
                self._wish_of(job, Wish(desired=DesiredState.STOP))
        for _ in range(_ROUNDS_AT_MOST):
            await self._round()
            self._pass(self.clock, 240.0)
            self._write_exit_records()
            if not self._is_busy():
                break

    async def close(self) -> None:
        """End the console and its machines."""
        await self.loops.close()
        for machine in self.machines:
            machine.close()
        self.ledger.close()

    def _number_of(self, job: JobId) -> int:
        asked = select(jobs.c.attempt_number).where(jobs.c.id == job)
        return int(self.ledger.read_now(lambda connection: connection.execute(asked).scalar()) or 0)

    def _is_busy(self) -> bool:
        """Whether some job waits, runs, or will run again."""
        busy = jobs.c.state.in_(_BUSY) | jobs.c.retry_at.is_not(None)
        asked = select(jobs.c.id).where(busy).limit(1)
        return self.ledger.read_now(lambda connection: connection.execute(asked).first()) is not None

    async def _round(self) -> None:
        await self.loops.dequeue.run_once()
        await self.loops.settle_launches()
        await self.loops.reconcile.run_once()
        await self.loops.settle_launches()
        await self.loops.cleanup.run_once()

    def _actions(self) -> dict[What, Callable[[Step], Awaitable[None]]]:
        return {
            What.SUBMIT: self._submit,
            What.STOP: self._stop,
            What.PAUSE: self._pause,
            What.RESUME: self._resume,
            What.RETRY: self._retry,
            What.DEQUEUE: self._dequeue,
            What.RECONCILE: self._reconcile,
            What.CLEANUP: self._cleanup,
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

    async def _submit(self, step: Step) -> None:
        gpus = (1, 1, 2, 0, 3)[step.a % 5]
        number = len(self.submitted)
        job = JobId("j" + "".join(chr(ord("a") + number // 26**place % 26) for place in range(9)))
        self.assembly.program_of[job] = list(PROGRAMS)[step.b % len(PROGRAMS)]
        new = NewJob(
            id=job,
            user_id=self.users[step.a % 2],
            name="sim",
            project="sim",
            spec="{}",
            spec_digest=_DIGEST,
            admission="{}",
            fleet=None,
            priority=step.b % 3,
            pools=(PoolRequest(name="main", nodes=1, gpus_per_node=gpus, cpus=0.1, memory_bytes=1 << 26),),
            gpus=gpus,
            grace_s=30.0,
            max_runtime_s=None,
            retries=step.b % 2,
        )
        self.ledger.write_now(lambda connection: admit(connection, new, None, self.clock.now()))
        self.submitted.append(job)

    async def _stop(self, step: Step) -> None:
        await self._wish(step, Wish(desired=DesiredState.STOP, grace_s=(None, 0.0)[step.b % 2]))

    async def _pause(self, step: Step) -> None:
        await self._wish(step, Wish(desired=DesiredState.PAUSE))

    async def _wish(self, step: Step, wished: Wish) -> None:
        job = self._choose(step.a)
        if job is not None:
            self._wish_of(job, wished)

    def _wish_of(self, job: JobId, wished: Wish) -> None:
        try:
            changed = self.ledger.write_now(lambda connection: wish(connection, job, wished, self._guard()))
        except Conflict:
            return
        if changed and wished.desired is DesiredState.STOP:
            self.stopped[job] = self._number_of(job)

    async def _resume(self, step: Step) -> None:
        await self._by_user(step, lambda connection, job: wish_resume(connection, job, self._guard(), "resumed"))

    async def _retry(self, step: Step) -> None:
        await self._by_user(step, lambda connection, job: wish_retry(connection, job, 1, self._guard(), "retried"))

    async def _by_user(self, step: Step, do: Callable[[Connection, JobId], bool]) -> None:
        job = self._choose(step.a)
        if job is None:
            return
        try:
            changed = self.ledger.write_now(lambda connection: do(connection, job))
        except Conflict:
            return
        if changed:
            self.stopped.pop(job, None)

    async def _dequeue(self, step: Step) -> None:
        del step
        await self.loops.dequeue.run_once()
        await self.loops.settle_launches()

    async def _reconcile(self, step: Step) -> None:
        for _ in range(1 + step.a % 2):
            await self.loops.reconcile.run_once()
            self._pass(self.clock, (0.0, 40.0)[step.b % 2])
        await self.loops.settle_launches()

    async def _cleanup(self, step: Step) -> None:
        del step
        await self.loops.cleanup.run_once()

    async def _together(self, step: Step) -> None:
        parts: list[Coroutine[Any, Any, object]] = [
            self.loops.dequeue.run_once(),
            self.loops.reconcile.run_once(),
            self.loops.cleanup.run_once(),
        ]
        if step.b % 2 == 0:
            parts.append(self._stop_meanwhile(step))
        self.chance.shuffle(parts)
        await asyncio.gather(*parts)
        await self.loops.settle_launches()

    async def _stop_meanwhile(self, step: Step) -> None:
        for _ in range(self.chance.randrange(_TURNS_AT_MOST)):
            await asyncio.sleep(0)
        await self._stop(step)

    async def _let_pass(self, step: Step) -> None:
        self._pass(self.clock, _PASSES[step.a % len(_PASSES)])

    async def _restart_console(self, step: Step) -> None:
        """It is killed in the middle of a pass, and the next one begins as `Scheduler.start` does."""
        if step.a % 2:
            working = asyncio.create_task(self._round())
            for _ in range(step.b % 12):
                await asyncio.sleep(0)
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
        await self.loops.close()
        self.loops = self._open_console()
        await self.ledger.write(void_leases)
        await self.loops.reconcile.run_once()
        await self.loops.settle_launches()

    async def _set_clock(self, step: Step) -> None:
        self.clock.offset += _CLOCK_STEPS[step.a % len(_CLOCK_STEPS)]

    async def _kill_daemon(self, step: Step) -> None:
        self._machine(step).kill_daemon()

    async def _restart_engine(self, step: Step) -> None:
        self._machine(step).restart_engine(live_restore=step.b % 2 == 0)

    async def _reboot(self, step: Step) -> None:
        self._machine(step).reboot()

    async def _cut_off(self, step: Step) -> None:
        self._machine(step).is_cut_off = True

    async def _heal(self, step: Step) -> None:
        self._machine(step).is_cut_off = False

    async def _harm_wire(self, step: Step) -> None:
        self.fleet.harms.append(Harm(list(Mishap)[step.a % len(Mishap)], _CALLS[step.b % len(_CALLS)]))

    async def _harm_engine(self, step: Step) -> None:
        kind = _KINDS[step.a % len(_KINDS)]
        method = "start" if kind is Kind.FAILED_START else _METHODS[step.b % len(_METHODS)]
        self._machine(step).arm(Fault(kind, method, step.b % 2, lag=step.b % 4 == 0))

    async def _let_neighbour_launch(self, step: Step) -> None:
        """At once, or between two calls of a launch that is under way."""
        machine = self._machine(step)
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

    def _open_console(self) -> Loops:
        self._processes += 1
        deps = SchedulerDeps(
            ledger=self.ledger,
            executors={FLEET: self.fleet},
            assembly=self.assembly,
            records=self.records,
            wakeups=self.wakeups,
            clock=self.clock,
            name_attempt=self._name_attempt,
            container_retention_s=0.0,
            owner=f"process {self._processes}",
        )
        return self.mutant.loops(deps)

    def _name_attempt(self, job: JobId, number: int) -> AttemptId:
        """No two alike, and the same ones in each run of a seed."""
        self._named += 1
        return AttemptId(f"{job}-{number}-{self._named:06x}")

    def _pass(self, clock: VirtualClock, seconds: float) -> None:
        clock.passed += seconds
        for machine in self.machines:
            machine.advance(seconds)

    def _write_exit_records(self) -> None:
        """What runners leave when their program ends by itself."""
        for machine in self.machines:
            for attempt, code in machine.ended_well():
                self.records.exits.setdefault(attempt, make_record(attempt, code, self.clock.now()))

    def _guard(self) -> Guard:
        return Guard(now=self.clock.now(), monotonic=self.clock.monotonic(), lease=None)

    def _choose(self, number: int) -> JobId | None:
        """One of the jobs, most often one of the newest."""
        newest = self.submitted[-4:] if number % 4 else self.submitted
        return newest[number % len(newest)] if newest else None

    def _machine(self, step: Step) -> Machine:
        return self.machines[step.a % len(self.machines)]


def _add_users(connection: Connection) -> list[int]:
    made = [add_user(connection, name, "member", 1.0) for name in USERS]
    change_parts(connection, Holder(USER, "bob"), {"gpus": LIMIT_OF_BOB})
    return made
