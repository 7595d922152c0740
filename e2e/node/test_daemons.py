"""Daemons, console and network that die, hang or part in the middle: nothing is lost, nothing runs twice."""

from collections.abc import Iterator, Mapping, Sequence

import pytest

from e2e.badinput.calls import Caller
from e2e.support.console import wait_for
from e2e.support.engines import PrivateEngine
from e2e.support.farm import Farm, Machine
from e2e.support.owned import owned_folder
from e2e.support.proxy import EngineProxy, engine_proxy
from e2e.support.work import UNTIL_TOLD, Work
from starforge.contract.capsule import INGEST_PREFIX

pytestmark = pytest.mark.engine

CREATE = "/containers/create"
START = "/start"


@pytest.fixture(scope="module")
def proxy(engines: list[PrivateEngine]) -> Iterator[EngineProxy]:
    """Between the first machine's daemon and its engine."""
    with owned_folder() as short, engine_proxy(short / "p.sock", engines[0].socket_path) as between:
        yield between


@pytest.fixture(scope="module")
def machine_settings(proxy: EngineProxy) -> Sequence[Mapping[str, str]]:
    return [{"FORGE_DOCKER_SOCKET": proxy.socket_path}]


@pytest.fixture
def first(fleet: Farm) -> Machine:
    return fleet.machines[0]


def containers_of(fleet: Farm, job: str) -> list[tuple[str, str]]:
    """Machine and state of every container of the job, on all engines."""
    return [
        (machine.name, one["State"])
        for machine in fleet.machines
        for one in machine.engine.engine.list_containers(f"forge.job={job}")
    ]


def read_token(machine: Machine, attempt: str) -> str:
    """The token that the attempt reports with, as root on its machine reads it."""
    (file,) = machine.engine.run("find", "/run/starforge", "-path", f"*/{attempt}/ingest-token").split()
    return machine.engine.run("cat", file).strip()


def test_a_daemon_killed_under_a_job_changes_nothing(work: Work, first: Machine) -> None:
    job = work.run_on(first)
    first.kill()
    work.wait_status(first, "unreachable", "away")
    assert work.probe.state(job) == "RUNNING"
    first.start()
    work.wait_status(first, "ready")
    work.tell(job)
    assert work.wait_end(job)["job"]["state"] == "SUCCEEDED"
    assert len(work.starts(job)) == 1


@pytest.mark.parametrize("route", [CREATE, START], ids=["create", "start"])
def test_a_daemon_killed_in_mid_launch_loses_and_doubles_nothing(
    work: Work, fleet: Farm, first: Machine, proxy: EngineProxy, route: str
) -> None:
    reached, release = proxy.hold(route)
    with work.only(first):
        job = work.submit(UNTIL_TOLD, 8)
        assert reached.wait(30)
        first.kill()
    first.start()
    work.wait_started(job)  # here or elsewhere, once its first attempt is fenced
    release.set()  # what the dead daemon had sent still arrives
    wait_for(lambda: len(containers_of(fleet, job)) >= 1, "the job's container")
    work.tell(job)
    assert work.wait_end(job)["job"]["state"] == "SUCCEEDED"
    assert len(work.starts(job)) == 1
    work.check()
    # What arrived late holds no GPU for ever: the whole machine can be had.
    with work.only(first):
        whole = work.submit("true", 8)
        assert work.wait_end(whole)["job"]["state"] == "SUCCEEDED"


@pytest.mark.parametrize("route", [CREATE, START], ids=["create", "start"])
def test_a_daemon_frozen_in_mid_launch_goes_on_with_one_container_in_all(
    work: Work, fleet: Farm, first: Machine, proxy: EngineProxy, route: str
) -> None:
    reached, release = proxy.hold(route)
    with work.only(first):
        job = work.submit(UNTIL_TOLD, 2)
        assert reached.wait(30)
        first.freeze()
        release.set()
    work.wait_note(job, f"waiting for {first.name}")
    assert work.probe.state(job) == "SUBMITTED"
    assert work.starts(job) == [] or route == START
    first.thaw()
    work.wait_started(job)
    assert len(containers_of(fleet, job)) == 1
    work.tell(job)
    assert work.wait_end(job)["job"]["state"] == "SUCCEEDED"
    assert len(work.starts(job)) == 1


def test_a_job_of_a_frozen_machine_that_is_marked_lost_runs_elsewhere_and_once_in_all(
    work: Work, fleet: Farm, first: Machine, proxy: EngineProxy
) -> None:
    reached, release = proxy.hold(CREATE)
    with work.only(first):
        job = work.submit(UNTIL_TOLD, 2)
        assert reached.wait(30)
        first.freeze()
    work.wait_note(job, f"waiting for {first.name}")
    lost = work.order(first.name, "mark-lost", confirm=first.name)
    assert lost.body["jobs"] == [job]
    work.wait_started(job)
    assert work.node_of(job) != first.name
    release.set()
    first.thaw()
    work.wait_status(first, "ready")
    running = [where for where, state in containers_of(fleet, job) if state == "running"]
    assert running == [work.node_of(job)]
    work.tell(job)
    assert work.wait_end(job)["job"]["state"] == "SUCCEEDED"
    assert "node_lost" in work.probe.reasons(job)
    assert len(set(work.starts(job))) == len(work.starts(job))


def test_a_daemon_frozen_and_killed_in_mid_stop_stops_the_job_all_the_same(
    work: Work, first: Machine, proxy: EngineProxy
) -> None:
    job = work.run_on(first, "trap '' TERM\n" + UNTIL_TOLD)
    reached, release = proxy.hold("/stop")
    work.stop(job, grace_s=1)
    assert reached.wait(30)
    first.freeze()
    work.wait_note(job, f"waiting for {first.name}")
    first.kill()
    release.set()
    first.start()
    assert work.wait_end(job, 90)["job"]["state"] == "STOPPED"
    assert len(work.starts(job)) == 1


def test_a_cut_network_gives_no_signal_and_converges_when_it_heals(work: Work, fleet: Farm, first: Machine) -> None:
    going, ending = work.run_on(first), work.run_on(first)
    first.cut()
    work.wait_status(first, "unreachable", "away")
    wait_for(lambda: {gpu["state"] for gpu in fleet.node(first.name)["gpus"]} == {"blocked"}, "its GPUs to be blocked")
    work.tell(ending)
    record = work.console.storage / "runs" / ending / "attempts" / "1" / "exit.json"
    wait_for(record.exists, "the job to end behind the cut")
    work.wait_note(going, f"waiting for {first.name}")
    assert [work.probe.state(job) for job in (going, ending)] == ["RUNNING", "RUNNING"]
    elsewhere = work.submit("true", 8)
    assert work.wait_end(elsewhere)["job"]["state"] == "SUCCEEDED"
    assert work.node_of(elsewhere) != first.name
    first.heal()
    assert work.wait_end(ending)["job"]["state"] == "SUCCEEDED"
    assert work.probe.state(going) == "RUNNING"
    work.tell(going)
    assert work.wait_end(going)["job"]["state"] == "SUCCEEDED"
    assert [len(work.starts(job)) for job in (going, ending)] == [1, 1]


def test_a_machine_that_is_marked_lost_and_returns_is_cleaned_up_before_it_takes_anything(
    work: Work, fleet: Farm, first: Machine
) -> None:
    job = work.run_on(first)
    ingest = Caller(work.console.ingest_port, read_token(first, work.starts(job)[0]))
    assert ingest.send("POST", f"{INGEST_PREFIX}/heartbeat", {}).status == 200
    first.cut()
    work.wait_status(first, "unreachable", "away")
    refused = work.order(first.name, "mark-lost", confirm="another")
    assert refused.status >= 400
    assert work.order(first.name, "mark-lost", confirm=first.name).body["jobs"] == [job]
    assert ingest.send("POST", f"{INGEST_PREFIX}/heartbeat", {}).status == 410
    work.wait_started(job, 2)
    assert work.node_of(job) != first.name
    assert (first.name, "running") in containers_of(fleet, job)
    first.heal()
    work.wait_status(first, "ready")
    assert [where for where, _ in containers_of(fleet, job)] == [work.node_of(job)]
    work.tell(job)
    detail = work.wait_end(job)
    assert detail["job"]["state"] == "SUCCEEDED"
    # A machine that is slow to be heard may turn an attempt away before it starts, for free as well.
    assert not any(one["costs_retry"] for one in detail["attempts"])
    assert len(set(work.starts(job))) == 2


@pytest.mark.parametrize("route", [CREATE, START], ids=["create", "start"])
def test_a_console_killed_in_mid_launch_finds_what_its_machine_did(
    work: Work, first: Machine, proxy: EngineProxy, route: str
) -> None:
    reached, release = proxy.hold(route)
    with work.only(first):
        job = work.submit(UNTIL_TOLD, 2)
        assert reached.wait(30)
        work.console.kill()
        release.set()
        work.console.start()
        work.wait_started(job)
    work.tell(job)
    assert work.wait_end(job)["job"]["state"] == "SUCCEEDED"
    assert len(work.starts(job)) == 1


def test_console_and_daemon_killed_together_find_every_job_again(work: Work, fleet: Farm, first: Machine) -> None:
    running = work.run_on(first)
    waiting = [work.submit(UNTIL_TOLD, 8) for _ in range(4)]
    work.console.kill()
    first.kill()
    work.console.start()
    first.start()
    for job in (running, *waiting):
        wait_for(work.out(job).exists, f"job {job} to be launched", 90)
        work.tell(job)
        assert work.wait_end(job, 90)["job"]["state"] == "SUCCEEDED"
        assert len(work.starts(job)) == 1
    assert fleet.look()["unknown_attempts"] == []
