"""A console's fleets over a real ledger: registration and administration, and a fake executor for each fleet."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from server.tests.clocks import HandClock
from server.tests.databases import open_database
from server.tests.fleets.machines import INSTALL, Machine
from server.tests.ledger.builders import guard, queued, submit
from starforge.contract.executor import Executor, Target
from starforge.contract.ids import new_attempt_id
from starforge_console.domain.job import JobInFlight
from starforge_console.executors.fake import FakeExecutor
from starforge_console.executors.scripting import FakeNode
from starforge_console.fleets.administration import Administration, AdministrationParts
from starforge_console.fleets.directory import Directory
from starforge_console.fleets.hardware import HardwareRegistry
from starforge_console.fleets.registration import JoinTerms, Registration, RegistrationParts
from starforge_console.fleets.served import ServedFleets, build_fleet
from starforge_console.ledger.database import Database
from starforge_console.ledger.fleets import Fleet, list_fleets
from starforge_console.ledger.in_flight import list_in_flight
from starforge_console.ledger.queue import NewAttempt, dequeue
from starforge_console.wakeups import Wakeups

KEY_FILE = "node-key.pem"


@dataclass
class Yard:
    """Everything that knows fleets. `restart` builds it anew over the same ledger, as a new process would."""

    root: Path
    ledger: Database
    clock: HandClock
    wakeups: Wakeups
    executors: dict[str, FakeExecutor] = field(default_factory=dict)
    hardware: HardwareRegistry = field(init=False)
    directory: Directory = field(init=False)
    fleets: ServedFleets = field(init=False)
    registration: Registration = field(init=False)
    administration: Administration = field(init=False)

    async def restart(self) -> None:
        self.hardware = HardwareRegistry(self.ledger, self.clock)
        self.directory = Directory(self.ledger, self.clock)
        self.fleets = ServedFleets(self.ledger, self._build_executor, self.wakeups, self.clock)
        await self.hardware.load()
        await self.directory.load()
        await self.fleets.load()
        self.fleets.begin()
        terms = JoinTerms(
            install=INSTALL,
            storage_root=str(self.root / "storage"),
            storage_id="storage1",
            ingest_url="http://console:7081",
            job_user=(12_345, 12_345),
            key_file=self.root / KEY_FILE,
        )
        self.registration = Registration(
            RegistrationParts(
                ledger=self.ledger,
                directory=self.directory,
                hardware=self.hardware,
                terms=terms,
                clock=self.clock,
                wakeups=self.wakeups,
            )
        )
        self.administration = Administration(
            AdministrationParts(
                ledger=self.ledger,
                directory=self.directory,
                fleets=self.fleets,
                clock=self.clock,
                wakeups=self.wakeups,
            )
        )

    async def mint(self, fleet: str = "gpu", hours: float = 24.0, uses: int = 10) -> str:
        return (await self.administration.mint_token(fleet, "ada", hours, uses)).text.reveal()

    async def add_machine(self, machine: Machine | None = None) -> Machine:
        """A machine that joined, serves and was heard."""
        joined = machine or Machine()
        await joined.join(self.registration, await self.mint(joined.fleet))
        await joined.take_epoch(self.registration)
        await joined.beat(self.registration)
        return joined

    async def place(self, node: str, fleet: str = "gpu") -> JobInFlight:
        """A new job whose attempt was sent to the node."""

        job_id = await self.ledger.write(submit)
        attempt = new_attempt_id(job_id, 1)
        new = NewAttempt(
            id=attempt,
            number=1,
            target=Target(fleet=fleet, node=node, name=f"sf-{attempt}"),
            token_hash=attempt,
            token_expires_at=self.clock.at + 1e6,
            lease="me",
            lease_until=self.clock.at + 300.0,
        )
        taken = guard(self.clock.at, "me")
        await self.ledger.write(lambda c: dequeue(c, queued(c, job_id), new, taken))
        return (await self.ledger.read(lambda c: list_in_flight(c, [job_id])))[0]

    def _build_executor(self, fleet: Fleet) -> Executor:
        return self.executors.setdefault(fleet.name, FakeExecutor(fleet.name, [FakeNode(name="n1")]))


@asynccontextmanager
async def open_yard(root: Path) -> AsyncIterator[Yard]:
    """A console with an empty fleet `gpu` of kind `node`."""
    ledger = open_database(root, "ledger")
    wakeups = Wakeups()
    wakeups.bind()
    yard = Yard(root, ledger, HandClock(), wakeups)
    try:
        await yard.restart()
        if not await ledger.read(list_fleets):
            await yard.fleets.create(build_fleet("gpu", "node"))
        yield yard
        await yard.administration.close()
    finally:
        ledger.close()
