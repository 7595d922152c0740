"""Engines, machines and disks that fail under jobs: what ran is told as it was, and what can runs elsewhere."""

import pytest

from e2e.support.console import wait_for
from e2e.support.farm import FLEET, Farm, Machine
from e2e.support.images import HOST_IMAGE
from e2e.support.work import UNTIL_TOLD, Work
from starforge.containers.labels import name_container
from starforge.contract.ids import parse_attempt_id
from starforge_console.domain.reconcile import GONE_TWICE_S

pytestmark = pytest.mark.engine

TRAPS_TERM = "trap 'echo trapped; exit 0' TERM\n" + UNTIL_TOLD


@pytest.fixture
def first(fleet: Farm) -> Machine:
    """Its engine ends what runs when it is restarted."""
    return fleet.machines[0]


@pytest.fixture
def second(fleet: Farm) -> Machine:
    """What runs lives on over a restart of its engine."""
    return fleet.machines[1]


def states_of(work: Work, machine: Machine) -> list[str]:
    """The states of the machine's GPUs, as the fleet's page shows them."""
    return sorted(gpu["state"] for gpu in work.fleet.node(machine.name)["gpus"])


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_an_engine_that_restarts_under_a_job_that_traps_term_is_never_success(
    work: Work, first: Machine, how: str
) -> None:
    job = work.run_on(first, TRAPS_TERM, gpus=2)
    first.engine.kill() if how == "kill" else first.engine.stop()
    first.engine.start()
    work.wait_reason(job, "interrupted")
    work.wait_started(job, 2)
    assert "exited_zero" not in work.probe.reasons(job)
    work.tell(job)
    detail = work.wait_end(job)
    assert detail["job"]["state"] == "SUCCEEDED"
    assert [one["costs_retry"] for one in detail["attempts"]] == [False, False]


def test_a_job_lives_on_over_the_restart_of_an_engine_that_keeps_it(work: Work, second: Machine) -> None:
    job = work.run_on(second, TRAPS_TERM, gpus=2)
    second.engine.kill()
    work.wait_note(job, f"waiting for {second.name}")
    assert work.probe.state(job) == "RUNNING"
    second.engine.start()
    work.wait_status(second, "ready")
    assert work.probe.state(job) == "RUNNING"
    work.tell(job)
    assert work.wait_end(job)["job"]["state"] == "SUCCEEDED"
    assert len(work.starts(job)) == 1


def test_a_machine_that_reboots_gives_its_gpus_back_and_its_jobs_run_again(work: Work, first: Machine) -> None:
    job = work.run_on(first, gpus=8)
    first.reboot()
    work.wait_reason(job, "interrupted", 90)
    work.wait_started(job, 2)
    work.wait_status(first, "ready")
    with work.only(first):
        whole = work.submit("true", 8)
        if work.node_of(job) == first.name:
            work.tell(job)
        assert work.wait_end(whole)["job"]["state"] == "SUCCEEDED"
    work.tell(job)
    detail = work.wait_end(job)
    assert detail["job"]["state"] == "SUCCEEDED"
    assert [one["costs_retry"] for one in detail["attempts"]] == [False, False]


def test_a_container_removed_by_hand_counts_as_vanished_only_after_two_looks(work: Work, first: Machine) -> None:
    job = work.run_on(first, gpus=2, retries=0)
    (listed,) = first.engine.engine.list_containers(f"forge.job={job}")
    first.engine.engine.remove(listed["Id"], force=True)
    wait_for(lambda: states_of(work, first) == ["free"] * 8, "its GPUs to be free")
    assert work.probe.state(job) == "RUNNING"
    detail = work.wait_end(job, GONE_TWICE_S + 30)
    assert (detail["job"]["state"], work.probe.reasons(job)[-1]) == ("FAILED", "vanished")
    ended = detail["attempts"][0]["ended_at"] - detail["attempts"][0]["started_at"]
    assert ended >= GONE_TWICE_S


def test_a_container_of_another_install_keeps_its_gpu_and_is_left_alone(work: Work, first: Machine) -> None:
    taken = work.fleet.node(first.name)["gpus"][0]["uuid"]
    labels = {
        "forge.install": "another",
        "forge.attempt": "jaaaaaaaaa-1-abcdef",
        "forge.job": "jaaaaaaaaa",
        "forge.gpus": "1",
        "forge.gpu.0": taken,
    }
    engine = first.engine.engine
    named = name_container(parse_attempt_id(labels["forge.attempt"]))
    foreign = engine.create(named, {"Image": HOST_IMAGE, "Cmd": ["sleep", "infinity"], "Labels": labels})["Id"]
    try:
        engine.start(foreign)
        wait_for(lambda: states_of(work, first) == ["foreign"] + ["free"] * 7, "the stranger to be seen")
        with work.only(first):
            job = work.submit("echo $NVIDIA_VISIBLE_DEVICES", 7)
            assert work.wait_end(job)["job"]["state"] == "SUCCEEDED"
            assert taken not in work.probe.log(job)
            whole = work.submit("true", 8)
            work.wait_note(whole, first.name)
            assert work.starts(whole) == []
        assert engine.inspect(foreign)["State"]["Running"]
    finally:
        engine.remove(foreign, force=True)


def test_a_job_that_ignores_term_is_stopped(work: Work, first: Machine) -> None:
    job = work.run_on(first, "trap '' TERM\n" + UNTIL_TOLD)
    work.stop(job, grace_s=1)
    assert work.wait_end(job)["job"]["state"] == "STOPPED"


def test_a_machine_whose_engine_has_no_room_is_at_fault_and_jobs_run_elsewhere(work: Work, first: Machine) -> None:
    with first.full("containers"):
        with work.only(first):
            job = work.submit(UNTIL_TOLD, 2)
            work.wait_reason(job, "node_fault")
        work.wait_started(job)
        assert work.node_of(job) != first.name
    work.tell(job)
    detail = work.wait_end(job)
    assert detail["job"]["state"] == "SUCCEEDED"
    assert "no space left" in str(detail["events"])
    assert len(work.starts(job)) == 1


def test_a_job_that_ends_while_its_engine_has_no_room_has_ended_and_gives_its_gpus_back(
    work: Work, first: Machine
) -> None:
    job = work.run_on(first, gpus=8)
    with first.full("containers"):
        work.tell(job)
        wait_for(lambda: {one["State"] for one in first.containers()} <= {"exited"}, "its container to end")
    assert work.wait_end(job)["job"]["state"] == "SUCCEEDED"
    wait_for(lambda: states_of(work, first) == ["free"] * 8, "its GPUs to be free")
    with work.only(first):
        assert work.wait_end(work.submit("true", 8))["job"]["state"] == "SUCCEEDED"


def test_a_machine_without_its_storage_gets_no_job_until_it_is_mounted(work: Work, first: Machine) -> None:
    running = work.run_on(first)
    first.lose_storage(work.console)
    try:
        node = work.wait_status(first, "unfit")
        assert "storage not mounted" in node["why"]
        with work.only(first):
            job = work.submit(UNTIL_TOLD, 2)
            work.wait_note(job, "storage not mounted")
            assert work.starts(job) == []
        work.wait_started(job)
        assert work.node_of(job) != first.name
    finally:
        first.find_storage(work.console)
    work.wait_status(first, "ready")
    for one in (running, job):
        work.tell(one)
        assert work.wait_end(one)["job"]["state"] == "SUCCEEDED"
    with work.only(first):
        after = work.submit("true", 8)
        assert work.wait_end(after)["job"]["state"] == "SUCCEEDED"
    assert work.fleet.look()["fleet"]["name"] == FLEET
