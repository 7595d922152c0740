"""Fleets for the console under test: a fake executor each, real registration, and machines that sign."""

import asyncio
import base64
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx2

from server.tests.fleets.machines import INSTALL, Machine
from starforge.contract.executor import Executor, FleetView
from starforge.contract.observation import NoSignal
from starforge.contract.registration import (
    COUNTER_HEADER,
    EPOCH_HEADER,
    EPOCH_PATH,
    HEARTBEAT_PATH,
    JOIN_PATH,
    SIGNATURE_HEADER,
    EpochAnswer,
    JoinAnswer,
)
from starforge.contract.wire import decode, encode
from starforge_console.clock import Clock
from starforge_console.executors.fake import FakeExecutor
from starforge_console.executors.node.directory import NodeDirectory
from starforge_console.executors.node.fleet import NodeExecutor
from starforge_console.executors.node.link import LinkSettings
from starforge_console.executors.node.viewing import build_view
from starforge_console.executors.scripting import FakeNode
from starforge_console.fleets.administration import Administration, AdministrationParts
from starforge_console.fleets.directory import Directory
from starforge_console.fleets.hardware import HardwareRegistry
from starforge_console.fleets.proofs import SignedBody
from starforge_console.fleets.registration import JoinTerms, Registration, RegistrationParts
from starforge_console.fleets.served import ServedFleets
from starforge_console.ledger.database import Database
from starforge_console.ledger.fleets import Fleet
from starforge_console.wakeups import Wakeups
from starforge_console.web.fleet_views import FleetServices
from starforge_console.web.nodes import NodeDesk, build_desk


class QuietExecutor(NodeExecutor):
    """Shows nodes as the real one does, and calls none of them: each request of a test has an event loop of its own."""

    async def start(self, wake: Callable[[], None]) -> None:
        wake()

    async def capacity(self) -> FleetView | NoSignal:
        now, known = time.monotonic(), self._directory.nodes(self._fleet)
        nodes = tuple(build_view(replace(node, reach=""), now, self._series_of) for node in known)
        return FleetView(fleet=self._fleet, nodes=nodes)


def build_fleets(ledger: Database, clock: Clock, wakeups: Wakeups, root: Path) -> tuple[FleetServices, NodeDesk]:
    """The services for the fleets that the ledger holds."""
    hardware, directory = HardwareRegistry(ledger, clock), Directory(ledger, clock)
    key_file = root / "node-key.pem"

    def build(fleet: Fleet) -> Executor:
        known: NodeDirectory = directory
        if fleet.kind == "node":
            return QuietExecutor(fleet.name, known, LinkSettings(install=INSTALL, key_file=key_file), hardware.find)
        return FakeExecutor(fleet.name, [FakeNode(name="here", gpus=2)])

    served = ServedFleets(ledger, build, wakeups, clock)
    asyncio.run(served.load())
    served.begin()
    terms = JoinTerms(
        install=INSTALL,
        storage_root=str(root / "storage"),
        storage_id="storage1",
        ingest_url="http://console:7081",
        job_user=(12_345, 12_345),
        key_file=key_file,
    )
    registration = Registration(
        RegistrationParts(
            ledger=ledger, directory=directory, hardware=hardware, terms=terms, clock=clock, wakeups=wakeups
        )
    )
    administration = Administration(
        AdministrationParts(ledger=ledger, directory=directory, fleets=served, clock=clock, wakeups=wakeups)
    )
    services = FleetServices(
        ledger=ledger, fleets=served, directory=directory, hardware=hardware, administration=administration
    )
    return services, build_desk(registration, clock)


def post_join(client: httpx2.Client, machine: Machine, token: str) -> JoinAnswer:
    """The machine joins over HTTP."""
    answer = client.post(JOIN_PATH, content=encode(machine.build_join(token)))
    assert answer.status_code == 200, answer.text
    joined = decode(answer.content, JoinAnswer)
    machine.name, machine.fence = joined.node, joined.fence
    return joined


def post_epoch(client: httpx2.Client, machine: Machine) -> int:
    """Its daemon takes its first epoch over HTTP."""
    signed = machine.build_question()
    answer = client.post(EPOCH_PATH.format(node=machine.name), content=signed.body, headers=headers_of(signed))
    assert answer.status_code == 200, answer.text
    machine.epoch, machine.nonce = decode(answer.content, EpochAnswer).epoch, ""
    return machine.epoch


def post_beat(client: httpx2.Client, machine: Machine, signed: SignedBody | None = None) -> tuple[int, bytes]:
    """It sends a heartbeat over HTTP; status and body of the answer."""
    signed = signed or machine.build_beat()
    answer = client.post(HEARTBEAT_PATH.format(node=machine.name), content=signed.body, headers=headers_of(signed))
    return answer.status_code, answer.content


def headers_of(signed: SignedBody) -> dict[str, str]:
    return {
        EPOCH_HEADER: str(signed.epoch),
        COUNTER_HEADER: str(signed.counter),
        SIGNATURE_HEADER: base64.b64encode(signed.signature).decode(),
    }
