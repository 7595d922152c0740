"""Identities, clocks and ledgers that are not what they were: nobody is let in by mistake, and nothing is killed."""

import asyncio
import shutil
import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.support.console import wait_for
from e2e.support.farm import Farm, Machine
from e2e.support.work import UNTIL_TOLD, Work
from starforge.contract.registration import HeartbeatAnswer
from starforge.contract.wire import NodeReport
from starforge.errors import Refused
from starforge.trust.certificates import make_identity
from starforge.trust.signatures import Signer
from starforge_forgelet.console import ConsoleLink
from starforge_forgelet.state import NodeState

pytestmark = pytest.mark.engine

FAKE_CLOCKS = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
SKEW_S = 90
OTHER_PORT = 7071


@pytest.fixture(scope="module")
def machine_settings() -> Sequence[Mapping[str, str]]:
    """The third machine's daemon is 90 s ahead."""
    if not FAKE_CLOCKS:
        pytest.skip("clocks apart need the package libfaketime")
    ahead = {
        "LD_PRELOAD": str(FAKE_CLOCKS[0]),
        "FAKETIME": f"+{SKEW_S}s",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_NO_CACHE": "1",
    }
    return [{}, {}, ahead]


@pytest.fixture
def first(fleet: Farm) -> Machine:
    return fleet.machines[0]


def test_a_machine_whose_clock_is_far_off_runs_jobs_and_says_so(work: Work, fleet: Farm) -> None:
    ahead = fleet.machines[2]
    node = work.wait_status(ahead, "ready")
    assert node["skew_s"] == pytest.approx(SKEW_S, abs=10)
    job = work.run_on(ahead, gpus=4)
    stopped = work.run_on(ahead)
    ahead.kill()
    ahead.start()
    work.wait_status(ahead, "ready")
    work.stop(stopped, grace_s=1)
    work.tell(job)
    detail = work.wait_end(job)
    assert detail["job"]["state"] == "SUCCEEDED"
    assert work.wait_end(stopped)["job"]["state"] == "STOPPED"
    attempt = detail["attempts"][0]
    assert attempt["dequeued_at"] - 1 <= attempt["started_at"] <= attempt["ended_at"] <= time.time()


@dataclass(frozen=True, slots=True)
class Sender:
    """Sends heartbeats in the machine's name."""

    machine: Machine
    console_url: str
    pem: str

    async def send(self, epoch: int, counter: int) -> object:
        """What the console answers. Raises Refused."""
        identity = NodeState(self.machine.state_dir).load_identity()
        report = NodeReport(
            node=identity.node,
            install=identity.install,
            version="0",
            view=None,
            boot="",
            epoch=epoch,
            fence=0,
            at=time.time(),
        )
        link = ConsoleLink(self.console_url)
        try:
            return await link.beat(identity, Signer(self.pem), report, counter)
        finally:
            await link.close()


def test_a_heartbeat_counts_once_and_only_with_the_machines_own_key(work: Work, fleet: Farm, first: Machine) -> None:
    epoch = fleet.node(first.name)["epoch"]
    first.kill()
    own = Sender(first, work.console.url, NodeState(first.state_dir).load_pem())
    stranger = Sender(first, work.console.url, make_identity("stranger").pem)

    async def send_all() -> None:
        assert isinstance(await own.send(epoch, 1_000_000), HeartbeatAnswer)
        heard_at = fleet.node(first.name)["heartbeat_at"]
        for sender, counter in ((own, 1_000_000), (own, 5), (stranger, 1_000_001)):
            with pytest.raises(Refused):
                await sender.send(epoch, counter)
        assert fleet.node(first.name)["heartbeat_at"] == heard_at

    asyncio.run(send_all())
    first.start()
    work.wait_status(first, "ready")
    assert fleet.node(first.name)["epoch"] > epoch


def test_a_copied_state_directory_makes_two_daemons_and_the_older_one_starts_nothing(
    work: Work, fleet: Farm, first: Machine
) -> None:
    second = fleet.machines[1]
    running = work.run_on(first)
    copy = Machine(second.engine, first.folder.with_name("copy"), port=OTHER_PORT, name=first.name)
    shutil.copytree(first.state_dir, copy.state_dir)
    copy.start()
    try:
        node = work.wait_status(first, "superseded")
        assert "two daemons with one identity" in node["why"]
        job = work.submit("true", 2)
        assert work.wait_end(job)["job"]["state"] == "SUCCEEDED"
        assert work.node_of(job) != first.name
        assert work.probe.state(running) == "RUNNING"
    finally:
        copy.kill()
    first.join(work.console, "sfj_spent")  # whoever proves to be the node needs no live token
    work.wait_status(first, "ready")
    work.tell(running)
    assert work.wait_end(running)["job"]["state"] == "SUCCEEDED"
    assert len(work.starts(running)) == 1


def test_a_restored_ledger_keeps_what_is_newer_and_ends_it_only_on_command(
    work: Work, fleet: Farm, first: Machine
) -> None:
    old = work.run_on(first)
    work.console.stop()
    state = Path(work.console.environment["FORGE_CONSOLE_STATE_DIR"])
    saved = state.with_name("saved.db")
    _copy_ledger(state / "ledger.db", saved)
    work.console.start()
    fleet.wait_ready()
    newer, ended = work.run_on(first, gpus=2), work.run_on(first)
    attempts = {job: work.starts(job)[0] for job in (newer, ended)}
    work.console.stop()
    work.tell(ended)
    record = work.console.storage / "runs" / ended / "attempts" / "1" / "exit.json"
    wait_for(record.exists, "the job to end while the console is away")
    for rest in state.glob("ledger.db*"):
        rest.unlink()
    _copy_ledger(saved, state / "ledger.db")
    work.jobs = [job for job in work.jobs if job not in attempts]
    work.console.start()
    fleet.wait_ready()

    wait_for(lambda: fleet.look()["unknown_attempts"] == [attempts[newer]], "the newer container to be shown")
    work.check()  # what had ended is swept, what runs is kept and shown
    (living,) = first.engine.engine.list_containers(f"forge.job={newer}")
    assert living["State"] == "running"
    assert sum(gpu["state"] == "held" for gpu in fleet.node(first.name)["gpus"]) == 3
    work.tell(old)
    assert work.wait_end(old)["job"]["state"] == "SUCCEEDED"
    answer = work.api.send("POST", f"/api/v1/nodes/{first.name}/end-unknown", {"attempt": attempts[newer]})
    assert answer.status == 202, answer
    wait_for(lambda: first.engine.engine.list_containers(f"forge.job={newer}") == [], "its end on command", 90)
    assert work.wait_status(first, "ready")
    whole = work.submit(UNTIL_TOLD, 8)
    work.wait_started(whole)


def _copy_ledger(source: Path, target: Path) -> None:
    """A whole copy, as a backup makes it."""
    with sqlite3.connect(source) as one, sqlite3.connect(target) as other:
        one.backup(other)
    one.close()
    other.close()
