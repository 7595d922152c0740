"""A console that listens, somebody signed in at it, and a machine that runs whatever is queued in an instant."""

import contextlib
import threading
from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.tests.workspace.trees import commit_tree, write_project
from server.tests.web.lives import begin, clean, go
from server.tests.web.serving import Served, serving
from server.tests.web.support import ConsoleUnderTest, build_console, close_console
from starforge.client.user import Client
from starforge.contract.ids import JobId
from starforge.contract.states import Reason
from starforge_console.domain.points import Columns
from starforge_console.ledger.points import add_points
from starforge_console.ledger.queue import list_queued
from starforge_console.wakeups import job_topic

LOG = b"first line\nstep 2 loss 0.5\nh\xc3\xa4lf"
WEIGHTS = b"weights"
JOIN_S = 20.0


class Machine:
    """Runs what is queued, to its success."""

    def __init__(self, console: ConsoleUnderTest) -> None:
        self._console = console
        self._ended = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def stop(self) -> None:
        self._ended.set()
        self.thread.join(JOIN_S)

    def _run(self) -> None:
        while not self._ended.wait(0.02):
            for queued in self._console.ledger.read_now(list_queued):
                with contextlib.suppress(AssertionError):  # somebody stopped it at that very moment
                    self._train(queued.id)
                self._console.services.wakeups.notify(job_topic(queued.id))

    def _train(self, job: JobId) -> None:
        console = self._console
        running = begin(console, job)
        assert running.attempt is not None
        out = console.run_folder(job) / "out"
        out.mkdir(parents=True)
        (out / "model.bin").write_bytes(WEIGHTS)
        columns = Columns(array("q", [0, 1, 2]), array("d", [2.0, 1.0, 0.5]), array("d", [1.0, 2.0, 3.0]))
        console.services.series.write_now(lambda c: add_points(c, job, 1, {"train/loss": columns}))
        console.logs.written[running.attempt] = LOG
        console.logs.ended.add(running.attempt)
        ended = go(console, running, Reason.EXITED_ZERO)
        assert ended.attempt is not None
        clean(console, ended.attempt)


@pytest.fixture
def console(tmp_path: Path) -> Iterator[ConsoleUnderTest]:
    built = build_console(tmp_path)
    try:
        yield built
    finally:
        close_console(built)


@pytest.fixture
def served(console: ConsoleUnderTest) -> Iterator[Served]:
    with serving(console) as listening:
        yield listening


@pytest.fixture
def machine(console: ConsoleUnderTest, served: Served) -> Iterator[Machine]:
    assert served.ports.api_port
    made = Machine(console)
    made.thread.start()
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def login(
    console: ConsoleUnderTest, served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, str]:
    """Address and token, which the environment names too."""
    token = console.add_user("ann")["Authorization"].removeprefix("Bearer ")
    address = f"http://127.0.0.1:{served.ports.api_port}"
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SF_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("SF_SERVER", address)
    monkeypatch.setenv("SF_TOKEN", token)
    return address, token


@pytest.fixture
def client(login: tuple[str, str]) -> Iterator[Client]:
    with Client(*login) as made:
        yield made


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    commit_tree(write_project(tmp_path / "demo"))
    monkeypatch.chdir(tmp_path / "demo")
    return tmp_path / "demo"
