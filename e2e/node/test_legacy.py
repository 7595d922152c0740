"""Machines that the console's settings name: used until the first one registers, and watched beyond that."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e.support.console import ConsoleProcess, wait_for
from e2e.support.engines import PrivateEngine
from e2e.support.farm import PORT, Machine
from e2e.support.images import host_image
from e2e.support.projects import make_experiment

pytestmark = pytest.mark.engine

TOKEN = "shared-between-both"  # noqa: S105 - made up


@dataclass(frozen=True, slots=True)
class Named:
    """A console whose settings name one machine."""

    console: ConsoleProcess
    machine: Machine
    token: str

    def nodes(self) -> list[dict[str, Any]]:
        found = self.console.get("/api/v1/fleets/node", self.token)["nodes"]
        assert isinstance(found, list)
        return found

    def statuses(self) -> dict[str, str]:
        return {node["name"]: node["status"] for node in self.nodes()}


@pytest.fixture
def named(engines: list[PrivateEngine], folder: Path) -> Iterator[Named]:
    engine = engines[0]
    settings = {
        "FORGE_DEFAULT_FLEET_KIND": "node",
        "FORGE_NODE_ADDRESSES": f"{engine.address}:{PORT}",
        "FORGE_NODE_TOKEN": TOKEN,
        "FORGE_RECONCILE_S": "2",
    }
    console = ConsoleProcess(folder, "/nonexistent.sock", settings)
    console.environment["FORGE_LISTEN"] = f"0.0.0.0:{console.port}"
    own = {"FORGE_NODE_TOKEN": TOKEN, "FORGE_STORAGE_ROOT": str(console.storage)}
    machine = Machine(engine, folder / "machine", own)
    try:
        console.init()
        token = console.token("--scopes", "read,submit,admin")
        console.sf("login", "--server", console.url, typed=token)
        machine.start()
        yield Named(console, machine, token)
    finally:
        machine.kill()
        console.close()


def test_a_named_machine_runs_jobs_until_one_registers_and_is_watched_to_the_end(
    named: Named, engines: list[PrivateEngine]
) -> None:
    console, machine = named.console, named.machine
    wait_for(lambda: list(named.statuses().values()) == ["ready"], "the named machine to take jobs", 30)
    assert [node["legacy"] for node in named.nodes()] == [True]
    script = "echo here; until [ -e $FORGE_OUT_DIR/go ]; do sleep 0.1; done"
    probe = make_experiment(console, host_image(engines[0]), script)
    job = probe.submit(profile="h200:2")
    probe.wait_state(job, "RUNNING")

    machine.settings.clear()
    token = json.loads(console.sf("fleet", "token", "node", "--json").stdout)["token"]
    machine.join(console, token, fleet="node")
    wait_for(lambda: named.statuses().get(machine.name) == "ready", "the machine to have registered", 30)
    console.restart()
    wait_for(lambda: named.statuses() == {machine.name: "ready"}, "the list to be unread", 30)
    assert probe.state(job) == "RUNNING"
    (console.storage / "runs" / job / "out" / "go").touch()
    assert probe.wait_end(job)["job"]["state"] == "SUCCEEDED"
    assert probe.reasons(job).count("started") == 1
