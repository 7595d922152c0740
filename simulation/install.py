"""One simulated install: a real ledger and the real loops of a console, over machines in virtual time."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeVar

from sqlalchemy import Connection, select

from server.tests.databases import empty_database
from server.tests.scheduler.support import KeptRecords, Loops, make_record
from simulation.clocks import VirtualClock
from simulation.console import Assembly, StillDatabase
from simulation.machines import Machine
from simulation.mutants import Mutant
from simulation.rules import FLEET, TEAM_OF_ADA, Rules
from simulation.starts import StartJudge
from simulation.steps import Step
from starforge.contract.ids import AttemptId, JobId, job_of
from starforge.contract.launch import Network
from starforge_console.domain.nodes import NodeFacts, decide_standing
from starforge_console.domain.quota import USER, Holder, Limit
from starforge_console.ledger.accounts import add_user
from starforge_console.ledger.fleets import Fleet, add_fleet
from starforge_console.ledger.moves import Guard
from starforge_console.ledger.nodes import NodeRow, add_node, load_node
from starforge_console.ledger.quotas import change_parts, set_team
from starforge_console.ledger.tables import attempts, jobs
from starforge_console.scheduler.deps import SchedulerDeps
from starforge_console.scheduler.sweep import Sweep
from starforge_console.wakeups import Wakeups

MACHINES: Final = {"n1": 2, "n2": 4, "n3": 1}
USERS: Final = ("ada", "bob")
_LIMIT_OF_BOB: Final = 3
T = TypeVar("T")


class Install:
    """What there is, and what was asked of it. `events` counts what befell it."""

    def __init__(self, folder: Path, seed: int, mutant: Mutant) -> None:
        self.chance = random.Random(seed)
        self.mutant = mutant
        self.events: Counter[str] = Counter()
        self.clock = VirtualClock()
        self.rules = Rules(is_strict=self.chance.choice((True, False)))
        self.judge = StartJudge(self.rules, self.clock)
        (folder / "ledger.db").write_bytes(empty_database("ledger"))
        self.ledger = StillDatabase(folder / "ledger.db", "ledger", self.judge)
        self.machines = [
            Machine(name, gpus, folder, self.chance.randrange(1 << 30), mutant.make_host)
            for name, gpus in MACHINES.items()
        ]
        self.fleet = mutant.wire(self.machines, self.locate, self._find_refusal, self.chance)
        self.assembly = Assembly(find_kept=self._find_kept, begins=self._note_beginning)
        self.records = KeptRecords()
        self.wakeups = Wakeups()
        self.submitted: list[JobId] = []
        self.stopped: dict[JobId, int] = {}
        """Jobs whose stop was acknowledged, with the number of the attempt that they had then."""
        self.paused: set[JobId] = set()
        """Jobs whose pause a user was promised."""
        self._places: dict[AttemptId, str] = {}
        self._processes = self._named = 0
        self.users = self.ledger.write_now(self._found)
        self.loops = self.open_console()

    def write(self, work: Callable[[Connection], T]) -> T:
        """What `work` answers, in a transaction of its own."""
        return self.ledger.write_now(work)

    def read(self, work: Callable[[Connection], T]) -> T:
        """The same of what only reads."""
        return self.ledger.read_now(work)

    def guard(self) -> Guard:
        """A guard for what somebody wishes now."""
        return Guard(now=self.clock.now(), monotonic=self.clock.monotonic(), lease=None)

    def locate(self, attempt: AttemptId) -> str | None:
        """The machine of an attempt, as the ledger has it; it never changes."""
        if attempt not in self._places:
            found = select(attempts.c.node).where(attempts.c.id == attempt)
            node = self.read(lambda connection: connection.execute(found).scalar())
            if node is None:
                return None
            self._places[attempt] = node
        return self._places[attempt]

    def number_of(self, job: JobId) -> int:
        """The number of the job's newest attempt."""
        asked = select(jobs.c.attempt_number).where(jobs.c.id == job)
        return int(self.read(lambda connection: connection.execute(asked).scalar()) or 0)

    def choose(self, number: int) -> Iterator[JobId]:
        """One of the jobs, most often one of the newest; none where there are none."""
        newest = self.submitted[-4:] if number % 4 else self.submitted
        if newest:
            yield newest[number % len(newest)]

    def machine(self, step: Step) -> Machine:
        """The machine that a step concerns."""
        return self.machines[step.a % len(self.machines)]

    def let_pass(self, seconds: float) -> None:
        """Let time pass everywhere."""
        self.clock.passed += seconds
        for machine in self.machines:
            machine.advance(seconds)

    def write_exit_records(self) -> None:
        """What runners leave when their program ends by itself."""
        for machine in self.machines:
            for attempt, code in machine.ended_well():
                if attempt not in self.records.exits:
                    self.records.exits[attempt] = make_record(attempt, code, self.clock.now())

    def open_console(self) -> Loops:
        """A new process of the console."""
        self._processes += 1
        deps = SchedulerDeps(
            ledger=self.ledger,
            executors={FLEET: self.fleet},
            assembly=self.assembly,
            records=self.records,
            wakeups=self.wakeups,
            clock=self.clock,
            views_seen=self.judge.begin_pass,
            name_attempt=self._name_attempt,
            container_retention_s=0.0,
            owner=f"process {self._processes}",
        )
        self.sweep = Sweep(deps)
        return self.mutant.loops(deps)

    def _found(self, connection: Connection) -> list[int]:
        """The fleet, its machines and its users."""
        fleet = Fleet(name=FLEET, kind="node", network=Network.NONE, user=None, requires_limit=self.rules.is_strict)
        add_fleet(connection, fleet, 1.0)
        for name in MACHINES:
            row = NodeRow(
                name=name,
                fleet=FLEET,
                hostname=name,
                advertise="",
                certificate="",
                version="",
                joined_at=1.0,
                joined_from="",
            )
            add_node(connection, row)
        made = [add_user(connection, name, "member", 1.0) for name in USERS]
        set_team(connection, made[0], TEAM_OF_ADA)
        holder, limit = Holder(USER, "bob"), Limit(gpus=_LIMIT_OF_BOB)
        change_parts(connection, holder, {"gpus": limit.gpus})
        self.rules.limits[holder] = limit
        return made

    def _find_refusal(self, node: str) -> str:
        row = self.read(lambda connection: load_node(connection, node))
        facts = NodeFacts(wanted=row.state, drained_why=row.drained_why, heard_s=0.0, reach="")
        return decide_standing(facts).refusal

    def _find_kept(self, job: JobId) -> int:
        kept = [found for machine in self.machines for found in machine.kept_steps().items()]
        return max((step for attempt, step in kept if job_of(attempt) == job), default=0)

    def _note_beginning(self, attempt: AttemptId) -> None:
        self.ledger.beginning = attempt

    def _name_attempt(self, job: JobId, number: int) -> AttemptId:
        """No two alike, and the same ones in each run of a seed."""
        self._named += 1
        return AttemptId(f"{job}-{number}-{self._named:06x}")
