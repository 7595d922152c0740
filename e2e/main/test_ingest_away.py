"""A job that trains while its console's address for reports is away: nothing of log and curve is lost or doubled."""

import re
from collections.abc import Callable, Iterator

import pytest

from e2e.main.test_crashes import starts_of
from e2e.main.test_restored import TRAIN, curve_of, let_end
from e2e.support.console import ConsoleProcess, find_free_port, wait_for
from e2e.support.projects import Experiment, make_experiment
from e2e.support.relay import Relay

pytestmark = pytest.mark.engine

STEP = re.compile(r"^step (\d+)$", re.MULTILINE)
MORE = 30
"""So many steps a job goes on by in each turn."""


@pytest.fixture
def ingest_port() -> int:
    """Where the console takes reports."""
    return find_free_port()


@pytest.fixture
def relay(ingest_port: int) -> Iterator[Relay]:
    """What jobs send their reports to."""
    between = Relay(("127.0.0.1", ingest_port), at=("0.0.0.0", 0))  # noqa: S104 - from the containers of this machine
    try:
        yield between
    finally:
        between.close()


@pytest.fixture
def console(behind_proxy: Callable[..., ConsoleProcess], relay: Relay, ingest_port: int) -> ConsoleProcess:
    return behind_proxy(
        FORGE_INGEST_LISTEN=f"127.0.0.1:{ingest_port}", FORGE_INGEST_URL=f"http://host.docker.internal:{relay.port}"
    )


def written(probe: Experiment, job: str) -> int:
    """How far the job itself has come: the last step in what its runner keeps for the console."""
    spool = probe.console.storage / "runs" / job / "attempts" / "1" / "spool" / "log.bin"
    return max((int(one) for one in STEP.findall(spool.read_text(errors="replace"))), default=0)


def received(probe: Experiment, job: str) -> int:
    """How far the console knows of the job."""
    return max((int(one) for one in STEP.findall(probe.log(job))), default=0)


def go_on(probe: Experiment, job: str) -> None:
    """Wait until the job itself has gone on."""
    begin = written(probe, job)
    wait_for(lambda: written(probe, job) > begin + MORE, "the job to train on")


def test_what_a_job_says_while_nobody_hears_it_is_there_once_when_somebody_does(
    console: ConsoleProcess, relay: Relay, image: str
) -> None:
    probe = make_experiment(console, image, TRAIN)
    job = probe.submit()
    wait_for(lambda: len(curve_of(probe, job)) > MORE, "curves to come in")

    relay.cut()
    before = received(probe, job)
    go_on(probe, job)
    assert received(probe, job) - before < MORE, "the address is away"
    assert probe.state(job) == "RUNNING"

    # What is received now is told to nobody: the job has to say it again.
    relay.lose_answers()
    wait_for(lambda: received(probe, job) > before + MORE, "something to be received")
    relay.cut()
    console.kill()
    go_on(probe, job)
    console.start()
    go_on(probe, job)
    assert probe.state(job) == "RUNNING"

    relay.heal()
    wait_for(lambda: received(probe, job) > before + 3 * MORE, "what was missed to come in while the job runs")
    let_end(probe, job)
    detail = probe.wait_end(job)
    assert (detail["job"]["state"], len(detail["attempts"]), starts_of(probe, job)) == ("SUCCEEDED", 1, 1)
    steps = list(range(1, written(probe, job) + 1))
    assert [int(one) for one in STEP.findall(probe.log(job))] == steps
    assert curve_of(probe, job) == pytest.approx([1 / step for step in steps])
