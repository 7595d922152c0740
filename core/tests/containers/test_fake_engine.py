"""The engine in memory answers as a real one does: both pass the same tests."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from core.tests.containers.builders import wait_until
from core.tests.containers.fake_engine import FakeDaemon, FakeEngine, Fault, Job, Kind
from e2e.support.engines import PrivateEngine
from e2e.support.images import HOST_IMAGE
from e2e.support.proxy import engine_proxy
from starforge.containers.engine import Engine, EngineError
from starforge.errors import BackendUnreachable

pytestmark = pytest.mark.timeout(180)

ENDS = "exit 3"
PLAIN = "echo ready; while true; do sleep 0.05; done"
TRAPS = "trap 'exit 0' TERM; echo ready; while true; do sleep 0.05; done"
IGNORES = "trap 'echo told' TERM; echo ready; while true; do sleep 0.05; done"
TAKES_4_S = "sleep 4"
JOBS = {
    ENDS: Job(ends_after_s=0.1, code=3),
    PLAIN: Job(),
    TRAPS: Job(on_term=0),
    IGNORES: Job(on_term=None),
    TAKES_4_S: Job(4.0),
}


class Lab(Protocol):
    """An engine, and the world around it."""

    @property
    def engine(self) -> Engine:
        """Whose answers are tested."""

    def until(self, holds: Callable[[], bool]) -> None:
        """Let time pass until `holds`."""

    def until_ready(self, container: str) -> None:
        """Let time pass until the program has set its trap."""

    def until_told(self, container: str) -> None:
        """Let time pass until TERM has reached the program."""

    def losing(self, method: str, route: str) -> contextlib.AbstractContextManager[Engine]:
        """An engine whose next call of `method` takes effect, and whose reply is lost."""

    def kill(self) -> None:
        """End the engine at once, with live-restore."""

    def start(self) -> None:
        """Start it again."""


class FakeLab:
    def __init__(self) -> None:
        self.daemon = FakeDaemon(jobs=JOBS, images={HOST_IMAGE})
        self.engine: Engine = FakeEngine(self.daemon)

    def until(self, holds: Callable[[], bool]) -> None:
        for _ in range(1000):
            if holds():
                return
            self.daemon.advance(0.1)
        raise AssertionError("not within 100 s of virtual time")

    def until_ready(self, container: str) -> None:
        assert self.engine.inspect(container)["State"]["Running"]

    def until_told(self, container: str) -> None:
        wait_until(lambda: bool(self.daemon.waits), f"the stop of {container} to reach the engine")

    @contextlib.contextmanager
    def losing(self, method: str, route: str) -> Iterator[Engine]:
        del route
        engine = FakeEngine(self.daemon)
        engine.arm(Fault(Kind.LOST, method, lag=True))
        yield engine

    def kill(self) -> None:
        self.daemon.kill(live_restore=True)

    def start(self) -> None:
        self.daemon.start()


@dataclass
class RealLab:
    machine: PrivateEngine
    folder: Path

    @property
    def engine(self) -> Engine:
        return self.machine.engine

    def until(self, holds: Callable[[], bool]) -> None:
        wait_until(holds, "what the test waits for")

    def until_ready(self, container: str) -> None:
        wait_until(lambda: self._says(container, b"ready"), "the program to run")

    def until_told(self, container: str) -> None:
        wait_until(lambda: self._says(container, b"told"), "TERM to reach the program")

    @contextlib.contextmanager
    def losing(self, method: str, route: str) -> Iterator[Engine]:
        del method
        with engine_proxy(self.folder / "p.sock", self.machine.socket_path) as proxy:
            engine = Engine(proxy.socket_path)
            engine.info()
            proxy.lose_reply(route)
            yield engine

    def kill(self) -> None:
        self.machine.kill()

    def start(self) -> None:
        self.machine.start()

    def _says(self, container: str, word: bytes) -> bool:
        return any(word in line for _, line in self.engine.logs(container, "0"))


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.engine)])
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lab]:
    if request.param == "fake":
        yield FakeLab()
        return
    machine: PrivateEngine = request.getfixturevalue("machine")
    yield RealLab(machine, tmp_path)
    for listed in machine.engine.list_containers():
        machine.engine.remove(listed["Id"], force=True)


def make_body(script: str = PLAIN, **changes: Any) -> dict[str, Any]:
    body = {"Image": HOST_IMAGE, "Entrypoint": ["bash"], "Cmd": ["-c", script], "Labels": {"forge.install": "x"}}
    return body | {"HostConfig": {"NetworkMode": "none", "Init": True}} | changes


def run(lab: Lab, script: str, name: str = "one") -> str:
    """A container whose program runs."""
    container: str = lab.engine.create(name, make_body(script))["Id"]
    lab.engine.start(container)
    return container


def state_of(lab: Lab, container: str) -> dict[str, Any]:
    state: dict[str, Any] = lab.engine.inspect(container)["State"]
    return state


def refused(call: Callable[[], object]) -> EngineError:
    with pytest.raises(EngineError) as raised:
        call()
    return raised.value


def test_a_name_that_is_taken_and_an_image_that_is_missing_are_refused(lab: Lab) -> None:
    lab.engine.create("one", make_body())
    taken = refused(lambda: lab.engine.create("one", make_body()))
    assert taken.status == 409
    assert 'The container name "/one" is already in use by container' in taken.message
    missing = refused(lambda: lab.engine.create("two", make_body(Image="starforge/none:1")))
    assert (missing.status, missing.message) == (404, "No such image: starforge/none:1")
    assert len(lab.engine.list_containers()) == 1


def test_a_folder_that_is_missing_is_refused_before_there_is_a_container(lab: Lab, tmp_path: Path) -> None:
    mount = {"Type": "bind", "Source": str(tmp_path / "none"), "Target": "/there"}
    error = refused(lambda: lab.engine.create("one", make_body(HostConfig={"Mounts": [mount]})))
    assert error.status == 400
    assert f"bind source path does not exist: {tmp_path / 'none'}" in error.message
    assert not lab.engine.list_containers()


def test_a_created_container_is_listed_as_such_and_has_never_started(lab: Lab) -> None:
    container = lab.engine.create("one", make_body())["Id"]
    (listed,) = lab.engine.list_containers("forge.install=x")
    assert (listed["Id"], listed["State"], listed["Names"]) == (container, "created", ["/one"])
    assert listed["Labels"]["forge.install"] == "x"
    assert not lab.engine.list_containers("forge.install=y")
    assert not lab.engine.list_containers("forge.install=x", "forge.node")
    state = state_of(lab, container)
    assert (state["Status"], state["ExitCode"], state["Error"]) == ("created", 0, "")
    assert state["StartedAt"].startswith("0001-")


def test_starting_what_runs_is_nothing_and_what_has_ended_runs_again(lab: Lab) -> None:
    container = run(lab, ENDS)
    lab.until(lambda: not state_of(lab, container)["Running"])
    first = state_of(lab, container)["StartedAt"]
    lab.engine.start(container)
    lab.until(lambda: not state_of(lab, container)["Running"])
    assert state_of(lab, container)["StartedAt"] > first
    other = run(lab, PLAIN, "two")
    began = state_of(lab, other)["StartedAt"]
    lab.engine.start(other)
    assert state_of(lab, other)["StartedAt"] == began


def test_what_runs_is_removed_by_force_alone_and_what_is_gone_is_not_found(lab: Lab) -> None:
    container = run(lab, PLAIN)
    error = refused(lambda: lab.engine.remove(container))
    assert error.status == 409
    assert "You cannot remove a running container" in error.message
    lab.engine.remove(container, force=True)
    for call in (lab.engine.inspect, lab.engine.start, lab.engine.remove):
        gone = refused(lambda call=call: call(container))  # type: ignore[misc]  # bound at once
        assert (gone.status, gone.message.lower()) == (404, f"no such container: {container}")


@pytest.mark.parametrize(("script", "code"), [(PLAIN, 143), (TRAPS, 0), (IGNORES, 137)])
def test_a_stop_returns_at_the_end_with_the_code_that_the_program_chose(lab: Lab, script: str, code: int) -> None:
    container = run(lab, script)
    lab.until_ready(container)
    lab.engine.stop(container, 1)
    state = state_of(lab, container)
    assert (state["Status"], state["ExitCode"], state["OOMKilled"]) == ("exited", code, False)
    lab.engine.stop(container, 1)
    assert refused(lambda: lab.engine.kill(container, "TERM")).status == 409


def test_what_ends_by_itself_keeps_its_code(lab: Lab) -> None:
    container = run(lab, ENDS)
    lab.until(lambda: state_of(lab, container)["Status"] == "exited")
    assert state_of(lab, container)["ExitCode"] == 3


def test_a_create_whose_reply_was_lost_appears_and_never_runs(lab: Lab) -> None:
    with lab.losing("create", "/containers/create") as engine, pytest.raises(BackendUnreachable):
        engine.create("one", make_body())
    lab.until(lambda: len(lab.engine.list_containers("forge.install=x")) == 1)
    assert lab.engine.list_containers()[0]["State"] == "created"


def test_a_start_whose_reply_was_lost_comes_about(lab: Lab) -> None:
    container = lab.engine.create("one", make_body())["Id"]
    with lab.losing("start", "/start") as engine, pytest.raises(BackendUnreachable):
        engine.start(container)
    lab.until(lambda: lab.engine.list_containers()[0]["State"] == "running")


def test_containers_outlive_an_engine_with_live_restore_and_a_stop_under_way_does_not(lab: Lab) -> None:
    ended, stopping = run(lab, ENDS, "one"), run(lab, IGNORES, "two")
    lab.until_ready(stopping)
    lab.until(lambda: state_of(lab, ended)["Status"] == "exited")
    thread = threading.Thread(target=stop_until_cut, args=(lab.engine, stopping, 2))
    thread.start()
    lab.until_told(stopping)
    lab.kill()
    thread.join()
    with pytest.raises(BackendUnreachable):
        lab.engine.ping()
    lab.start()
    assert state_of(lab, ended)["ExitCode"] == 3
    clock = run(lab, TAKES_4_S, "three")
    lab.until(lambda: state_of(lab, clock)["Status"] == "exited")
    assert state_of(lab, stopping)["Running"]


def stop_until_cut(engine: Engine, container: str, timeout_s: float) -> None:
    with contextlib.suppress(BackendUnreachable):
        engine.stop(container, timeout_s)
