"""Two consoles, each with a daemon of its own on one machine: they share an engine and take nothing from each other."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.support.console import wait_for
from e2e.support.engines import PrivateEngine
from e2e.support.farm import Farm, Machine, farm
from e2e.support.images import host_image
from e2e.support.invariants import watching
from e2e.support.projects import make_experiment
from e2e.support.registry import stub_registry
from e2e.support.work import UNTIL_TOLD, Work, make_work
from tools.host_image import find_or_build_tar

pytestmark = pytest.mark.engine

OTHER_PORT = 7071


@pytest.fixture(scope="module")
def shared_neighbour(work_of_first: Work, engines: list[PrivateEngine], folder: Path) -> Iterator[Work]:
    """Another console with the first machine alone."""
    del work_of_first
    with farm(folder / "neighbour", engines[:1], port=OTHER_PORT) as made:
        yield make_work(made, make_experiment(made.console, host_image(engines[0]), "exit 0"))


@pytest.fixture(scope="module")
def work_of_first(shared_work: Work) -> Work:
    return shared_work


@pytest.fixture
def neighbour(shared_neighbour: Work) -> Iterator[Work]:
    yield shared_neighbour
    shared_neighbour.mend()
    shared_neighbour.fleet.wait_ready()
    shared_neighbour.end_all()
    shared_neighbour.check()


@pytest.fixture
def first(fleet: Farm) -> Machine:
    return fleet.machines[0]


def test_jobs_of_two_consoles_share_a_machine_and_no_gpu_twice(work: Work, neighbour: Work, first: Machine) -> None:
    dice = random.Random(7)  # noqa: S311 - the same sizes in every run
    with watching(work.fleet) as watch, work.only(first):
        jobs = [
            (console, console.submit("sleep 0.5\n", dice.randint(1, 6)))
            for _ in range(8)
            for console in (work, neighbour)
        ]
        for console, job in jobs:
            assert console.wait_end(job, 180)["job"]["state"] == "SUCCEEDED"
            assert len(console.starts(job)) == 1
    assert (watch.faults, watch.samples > 0) == ([], True)


def test_a_restart_of_one_leaves_what_the_other_runs_fetches_and_keeps_secret(
    work: Work, neighbour: Work, first: Machine, engines: list[PrivateEngine]
) -> None:
    other = neighbour.fleet.machines[0]
    running = work.run_on(first, gpus=3)
    attempt = work.starts(running)[0]
    with stub_registry(engines[0].gateway, find_or_build_tar()) as registry, work.only(first):
        fetching = work.submit(UNTIL_TOLD, 2, image=registry.image("stall"))
        work.wait_note(fetching, "pulling")
        other.kill()
        other.start()
        neighbour.console.restart()
        neighbour.fleet.wait_ready()
        guest = neighbour.submit(UNTIL_TOLD, 3)
        neighbour.wait_started(guest)
        assert first.engine.run("find", "/run/starforge", "-name", "ingest-token", "-path", f"*{attempt}*").split()
        states = sorted(gpu["state"] for gpu in neighbour.fleet.node(other.name)["gpus"])
        assert states.count("foreign") >= 3, states
        registry.go_on.set()
        work.wait_started(fetching)
    for console, job in ((work, running), (work, fetching), (neighbour, guest)):
        console.tell(job)
        assert console.wait_end(job)["job"]["state"] == "SUCCEEDED"
        assert len(console.starts(job)) == 1


def test_a_token_of_another_console_lets_nobody_in(work: Work, neighbour: Work, first: Machine, folder: Path) -> None:
    stranger = Machine(first.engine, folder / "stranger", port=7072)
    foreign = neighbour.fleet.new_token()
    done = stranger.try_join(work.console, foreign)
    assert done.returncode != 0
    assert foreign not in done.stdout + done.stderr
    assert "token" in done.stderr
    token = mint(work, hours=1e-4)
    wait_for(lambda: not list_tokens(work, token[0]), "the token to expire", 10)
    late = stranger.try_join(work.console, token[1])
    assert (late.returncode != 0, "token" in late.stderr) == (True, True), late
    assert len(work.fleet.nodes()) == len(work.fleet.machines)


def mint(work: Work, hours: float) -> tuple[int, str]:
    """A join token's number and text."""
    made = work.api.send("POST", "/api/v1/fleets/farm/join-tokens", {"hours": hours})
    assert made.status == 201, made
    return made.body["id"], made.body["token"]


def list_tokens(work: Work, number: int) -> list[int]:
    """Whether that token still lets somebody in: its number, or nothing."""
    items = work.console.get("/api/v1/fleets/farm/join-tokens", work.fleet.token)["items"]
    return [one["id"] for one in items if one["id"] == number]
