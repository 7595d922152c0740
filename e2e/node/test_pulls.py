"""Images that a machine has to fetch first, from a registry that answers well, late, or not at all."""

from collections.abc import Iterator

import pytest

from e2e.support.console import wait_for
from e2e.support.engines import PrivateEngine
from e2e.support.farm import Farm, Machine
from e2e.support.registry import StubRegistry, stub_registry
from e2e.support.work import UNTIL_TOLD, Work
from tools.host_image import find_or_build_tar

pytestmark = pytest.mark.engine


@pytest.fixture
def registry(engines: list[PrivateEngine]) -> Iterator[StubRegistry]:
    with stub_registry(engines[0].gateway, find_or_build_tar()) as running:
        yield running


@pytest.fixture
def first(fleet: Farm) -> Machine:
    return fleet.machines[0]


@pytest.mark.parametrize(("repository", "words"), [("denied", "denied"), ("missing", "name unknown")])
def test_a_pull_that_is_refused_fails_at_once_in_the_registrys_words(
    work: Work, registry: StubRegistry, repository: str, words: str
) -> None:
    job = work.submit("true", 2, image=registry.image(repository))
    detail = work.wait_end(job)
    assert (detail["job"]["state"], work.probe.reasons(job)[-1]) == ("FAILED", "pull_denied")
    assert words in detail["job"]["note"].removeprefix(registry.image(repository))
    assert (len(detail["attempts"]), work.starts(job)) == (1, [])


def test_a_registry_that_limits_its_callers_is_asked_again(work: Work, registry: StubRegistry) -> None:
    job = work.submit("true", 2, image=registry.image("busy"))
    assert work.wait_end(job)["job"]["state"] == "SUCCEEDED"
    assert registry.asked["busy", "manifests"] > 2


def test_a_stalled_pull_is_shown_survives_its_daemon_and_can_be_stopped(
    work: Work, registry: StubRegistry, first: Machine
) -> None:
    with work.only(first):
        waiting, stopped = (work.submit(UNTIL_TOLD, 2, image=registry.image("stall")) for _ in range(2))
        for job in (waiting, stopped):
            work.wait_note(job, "pulling")
        wait_for(lambda: [pull["image"] for pull in work.fleet.node(first.name)["pulls"]], "the pull to be shown")
        first.kill()
        first.start()
        work.stop(stopped)
        assert work.wait_end(stopped)["job"]["state"] == "STOPPED"
        assert work.probe.state(waiting) == "PENDING"
        registry.go_on.set()
        work.wait_started(waiting)
    work.tell(waiting)
    assert work.wait_end(waiting)["job"]["state"] == "SUCCEEDED"
    assert (len(work.starts(waiting)), work.starts(stopped)) == (1, [])


def test_a_pull_that_finds_no_room_is_the_machines_fault(work: Work, registry: StubRegistry, first: Machine) -> None:
    registry.go_on.set()
    with first.full("tmp"):
        with work.only(first):
            # Of the others every layer may be there already.
            job = work.submit("true", 2, image=registry.image("slow"))
            work.wait_reason(job, "node_fault")
        detail = work.wait_end(job)
    assert detail["job"]["state"] == "SUCCEEDED"
    assert work.node_of(job) != first.name
    assert "no space left" in str(detail["events"])
