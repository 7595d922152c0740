"""The streams of the pages of fleets: what a machine tells reaches whoever looks, and only what has changed."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from server.tests.fleets.machines import Machine, build_gpu, build_view
from server.tests.pages.fleet_support import FleetConsole, build_fleet_console
from server.tests.pages.following import Follower, reader
from server.tests.web.serving import Served, serving
from server.tests.web.support import close_console
from starforge.contract.executor import GpuState
from starforge.contract.ids import AttemptId

BOTH = "gpu7", "gpu8"
STRANGER = AttemptId("j2k7abcdef-1-abcdef")


@pytest.fixture
def clients() -> Iterator[list[httpx2.Client]]:
    """Clients that are closed once the server has ended, and with it their streams."""
    opened: list[httpx2.Client] = []
    yield opened
    for client in opened:
        client.close()


@pytest.fixture
def fleets(tmp_path: Path) -> Iterator[FleetConsole]:
    built = build_fleet_console(tmp_path)
    try:
        yield built
    finally:
        close_console(built.console)


@pytest.fixture
def served(fleets: FleetConsole, clients: list[httpx2.Client]) -> Iterator[Served]:
    with serving(fleets.console) as running:
        running.clients = clients
        yield running


def add_both(fleets: FleetConsole) -> dict[str, Machine]:
    return {name: fleets.add_machine(Machine(hostname=name, advertise=f"10.0.0.{name[-1]}:7070")) for name in BOTH}


def targets(text: str) -> list[str]:
    return re.findall(r'hx-target="#([a-z0-9-]+)"', text)


def test_a_machine_that_joins_brings_the_whole_list(served: Served, fleets: FleetConsole) -> None:
    follower = Follower(reader(served, fleets.console), "/live/fleets/gpu")
    follower.wait("no GPUs")
    before = len(follower.text)
    fleets.add_machine(Machine())
    text = follower.wait('<article class="node" id="node-gpu7"')[before:]
    assert "fleet-nodes" in targets(text)
    assert "No machine has joined yet" not in text


def test_of_two_machines_only_the_one_that_changed_is_sent(served: Served, fleets: FleetConsole) -> None:
    machines = add_both(fleets)
    follower = Follower(reader(served, fleets.console), "/live/fleets/gpu")
    follower.wait('id="node-gpu8"')
    before = len(follower.text)
    machines["gpu8"].view = build_view(replace(build_gpu(0), state=GpuState.FOREIGN, why="process 48213"))
    fleets.beat(machines["gpu8"])
    follower.wait("process 48213")
    sent = targets(follower.text[before:])
    assert "node-gpu8" in sent
    assert not {"node-gpu7", "fleet-nodes", "fleet-unknown"} & set(sent)


def test_each_reader_gets_forms_with_the_own_key_and_a_member_gets_none(served: Served, fleets: FleetConsole) -> None:
    view = build_view(build_gpu(0, "NVIDIA Gizmo 9"))
    fleets.add_machine(Machine(view=view, attempts={STRANGER: "RUNNING"}))
    texts = [
        Follower(reader(served, fleets.console, name, role), "/live/fleets/gpu").wait("NVIDIA Gizmo 9")
        for name, role in (("ann", "admin"), ("eve", "admin"), ("bob", "member"))
    ]
    keys = [set(re.findall(r'name="form_key" value="([0-9a-f]{64})"', text)) for text in texts]
    assert [len(key) for key in keys] == [1, 1, 0]
    assert keys[0] != keys[1]
    assert "/drain" not in texts[2]


def test_the_list_of_fleets_tells_capacity_as_it_changes(served: Served, fleets: FleetConsole) -> None:
    follower = Follower(reader(served, fleets.console), "/live/fleets")
    follower.wait("no GPUs")
    fleets.add_machine(Machine())
    assert "free 2" in follower.wait('class="c-free"')


def test_the_stream_of_a_fleet_that_there_is_not_is_refused(served: Served, fleets: FleetConsole) -> None:
    assert reader(served, fleets.console).get("/live/fleets/nowhere").status_code == 404
