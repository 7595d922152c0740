"""A listing that has fallen behind the engine's containers: what is told of them is how they are."""

import os
import threading
from pathlib import Path

import pytest

from core.tests.containers.builders import finish, make_host, make_request, make_settings, see, wait_for, wait_until
from core.tests.containers.fake_engine import FakeDaemon, FakeEngine, Fault, Job, Kind
from e2e.support.engines import PrivateEngine
from e2e.support.images import HOST_IMAGE
from starforge.containers.engine import Document
from starforge.containers.host import ContainerHost
from starforge.containers.labels import ATTEMPT, State, name_container
from starforge.containers.listing import ALL_S, EACH_S, load_listing
from starforge.contract.executor import GpuState, NodeView
from starforge.contract.observation import Gone, Phase, Seen
from starforge.errors import BackendUnreachable

USER = f"{os.geteuid()}:{os.getegid()}"


@pytest.fixture
def daemon() -> FakeDaemon:
    return FakeDaemon(images={HOST_IMAGE}, jobs={"ends": Job(ends_after_s=1.0, code=7)})


@pytest.fixture
def fake_host(daemon: FakeDaemon, tmp_path: Path, secrets_root: Path) -> ContainerHost:
    return make_host(FakeEngine(daemon), make_settings(tmp_path, secrets_root))


class Busy(FakeEngine):
    """An engine that is busy with some containers and says nothing of them until it is done."""

    def __init__(self, daemon: FakeDaemon, names: tuple[str, ...]) -> None:
        super().__init__(daemon)
        self._names = names
        self.asked: list[float] = []

    def inspect(self, container: str, timeout_s: float | None = None) -> Document:
        inspected = super().inspect(container)
        if inspected["Name"].lstrip("/") not in self._names:
            return inspected
        assert timeout_s is not None
        self.asked.append(timeout_s)
        threading.Event().wait(timeout_s)
        raise BackendUnreachable("the engine did not answer", why="timed out")


@pytest.mark.engine
def test_a_job_that_ends_while_the_engines_disk_is_full_has_ended_and_gives_its_gpus_back(
    machine: PrivateEngine, host: ContainerHost, tmp_path: Path
) -> None:
    request = make_request(tmp_path, gpus=4)
    host.launch(request)
    wait_for(host, request.attempt, Phase.RUNNING)
    with machine.full("containers"):
        finish(request, 3)
        inspected = name_container(request.attempt)
        wait_until(lambda: machine.engine.inspect(inspected)["State"]["Status"] == State.EXITED, "its end")
        assert wait_for(host, request.attempt, Phase.EXITED).exit
    ended = wait_for(host, request.attempt, Phase.EXITED)
    assert ended.exit is not None
    assert ended.exit.code == 3
    view = host.view()
    assert isinstance(view, NodeView)
    assert {gpu.state for gpu in view.gpus} == {GpuState.FREE}
    following = make_request(tmp_path, "exit 0", gpus=4)
    host.launch(following)
    wait_for(host, following.attempt, Phase.EXITED)
    host.cleanup(request.attempt)
    assert isinstance(see(host, request.attempt), Gone)


def test_what_is_listed_as_running_and_has_ended_has_ended(
    daemon: FakeDaemon, fake_host: ContainerHost, tmp_path: Path
) -> None:
    request = make_request(tmp_path, "ends", user=USER)
    fake_host.launch(request)
    daemon.full = True
    daemon.advance(2)
    assert [box.shown for box in daemon.boxes.values()] == [State.RUNNING]
    seen = see(fake_host, request.attempt)
    assert isinstance(seen, Seen)
    assert (seen.phase, seen.exit.code if seen.exit else None) == (Phase.EXITED, 7)
    assert fake_host.sweep(known=[]).removed == (request.attempt,)


def test_what_is_listed_as_created_and_runs_can_be_stopped(
    daemon: FakeDaemon, tmp_path: Path, secrets_root: Path
) -> None:
    engine = FakeEngine(daemon)
    host = make_host(engine, make_settings(tmp_path, secrets_root))
    request = make_request(tmp_path, user=USER)
    engine.arm(Fault(Kind.BEFORE, "start", act=lambda: setattr(daemon, "full", True)))
    host.launch(request)
    (box,) = daemon.boxes.values()
    assert (box.shown, box.state) == (State.CREATED, State.RUNNING)
    fenced = host.fence(request.attempt)
    assert isinstance(fenced, Seen)
    assert fenced.phase is Phase.RUNNING
    host.stop(request.attempt, 0)
    wait_until(lambda: box.next_at < daemon.now + 21, "the stop to reach it")
    daemon.advance(21)
    wait_for(host, request.attempt, Phase.EXITED)


def test_what_is_removed_between_listing_and_look_is_not_listed(daemon: FakeDaemon) -> None:
    engine = FakeEngine(daemon)
    gone = daemon.add_by_hand("gone", {ATTEMPT: "a"})
    left = daemon.add_by_hand("left", {ATTEMPT: "b"})
    engine.arm(Fault(Kind.BEFORE, "inspect", act=lambda: FakeEngine(daemon).remove(gone.id, force=True)))
    assert [listed["Id"] for listed in load_listing(engine, ATTEMPT)] == [left.id]


def test_a_container_that_the_engine_is_busy_with_keeps_its_listed_state_and_holds_up_no_other(
    daemon: FakeDaemon,
) -> None:
    busy, ended = (daemon.add_by_hand(name, {ATTEMPT: name}) for name in ("busy", "ended"))
    daemon.full = True
    daemon.end(ended, 0)
    engine = Busy(daemon, ("busy",))
    states = {listed["Id"]: listed["State"] for listed in load_listing(engine, ATTEMPT)}
    assert states == {busy.id: State.RUNNING, ended.id: State.EXITED}
    assert engine.asked == [EACH_S]


def test_many_containers_that_the_engine_is_busy_with_are_not_all_waited_for(daemon: FakeDaemon) -> None:
    names = tuple(f"busy{number}" for number in range(12))
    for name in names:
        daemon.add_by_hand(name, {ATTEMPT: name})
    engine = Busy(daemon, names)
    assert [listed["State"] for listed in load_listing(engine, ATTEMPT)] == [State.RUNNING] * 12
    assert sum(engine.asked) <= ALL_S
    assert len(engine.asked) < 12
