"""A console whose fleets hold made-up machines with real keys; what they tell is what a test lays out."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry

from server.tests.fleets.machines import INSTALL, Machine
from server.tests.web.support import ConsoleUnderTest, build_console
from starforge.contract.executor import Executor, FleetView
from starforge_console.executors.fake import FakeExecutor
from starforge_console.executors.node.viewing import build_view
from starforge_console.fleets.administration import Administration, AdministrationParts
from starforge_console.fleets.directory import Directory
from starforge_console.fleets.hardware import HardwareRegistry
from starforge_console.fleets.registration import JoinTerms, Registration, RegistrationParts
from starforge_console.fleets.served import ServedFleets, build_fleet
from starforge_console.ledger.fleets import Fleet
from starforge_console.web.api import build_api
from starforge_console.web.fleet_views import FleetServices

T = TypeVar("T")


class ToldExecutor(FakeExecutor):
    """A fleet whose machines are those of the directory: every one of them is reached, and they tell their own."""

    def __init__(self, fleet: str, directory: Directory, hardware: HardwareRegistry) -> None:
        super().__init__(fleet, [])
        self._told = (fleet, directory, hardware)

    async def capacity(self) -> FleetView:
        fleet, directory, hardware = self._told
        now = directory.clock.monotonic()
        nodes = [build_view(replace(node, reach=""), now, hardware.find) for node in directory.nodes(fleet)]
        return FleetView(fleet=fleet, nodes=tuple(nodes))


@dataclass
class FleetConsole:
    """The console, and what stands behind the pages of its fleets."""

    console: ConsoleUnderTest
    services: FleetServices
    registration: Registration

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run(coroutine)

    def add_fleet(self, name: str) -> None:
        self.run(self.services.fleets.create(build_fleet(name, "node")))

    def add_machine(self, machine: Machine) -> Machine:
        """A machine that joined, serves, was heard and is reached."""

        async def join() -> Machine:
            minted = await self.services.administration.mint_token(machine.fleet, "ada")
            await machine.join(self.registration, minted.text.reveal(), machine.advertise.rpartition(":")[0])
            await machine.take_epoch(self.registration)
            await machine.beat(self.registration)
            self.services.directory.note_reach(machine.name, "")
            return machine

        return self.run(join())

    def beat(self, machine: Machine) -> None:
        self.run(machine.beat(self.registration))


def build_fleet_console(root: Path, **http: object) -> FleetConsole:
    """A console with an empty fleet `gpu` of kind `node`; `http` replaces settings of that group."""
    console = build_console(root)
    settings = console.services.settings
    changed = replace(settings, http=settings.http.model_copy(update=http))
    console.services = replace(console.services, settings=changed)
    ledger, clock, wakeups = console.ledger, console.clock, console.services.wakeups
    hardware, directory = HardwareRegistry(ledger, clock), Directory(ledger, clock)

    def build(fleet: Fleet) -> Executor:
        return ToldExecutor(fleet.name, directory, hardware)

    fleets = ServedFleets(ledger, build, wakeups, clock)
    fleets.begin()
    parts = AdministrationParts(ledger=ledger, directory=directory, fleets=fleets, clock=clock, wakeups=wakeups)
    terms = JoinTerms(
        install=INSTALL,
        storage_root="/srv/forge",
        storage_id="storage1",
        ingest_url="http://console:7081",
        job_user=(12_345, 12_345),
        key_file=root / "node-key.pem",
    )
    registration = Registration(
        RegistrationParts(
            ledger=ledger, directory=directory, hardware=hardware, terms=terms, clock=clock, wakeups=wakeups
        )
    )
    services = FleetServices(
        ledger=ledger,
        fleets=fleets,
        directory=directory,
        hardware=hardware,
        administration=Administration(parts),
    )
    console.services = replace(console.services, metrics=CollectorRegistry())  # its first app counts in the other one
    console.app = build_api(console.services, services)
    made = FleetConsole(console, services, registration)
    made.add_fleet("gpu")
    return made
