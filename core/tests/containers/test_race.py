"""Two processes that launch and are killed at any moment never let two containers run on one GPU."""

import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest

from e2e.support.engines import PrivateEngine
from starforge.containers.engine import Document

pytestmark = [pytest.mark.engine, pytest.mark.timeout(180)]

GPUS = 2
STARTS = 60
STARTS_WITHOUT_LOCK = 30


class Referee:
    """Counts, from the engine's own events, containers that run on one GPU at one moment."""

    def __init__(self) -> None:
        self.starts = 0
        self.doubles: list[str] = []
        self.gpus: Counter[str] = Counter()
        self._running: dict[str, str] = {}

    def take(self, event: Document) -> None:
        container, gpu = event["Actor"]["ID"], event["Actor"]["Attributes"].get("forge.gpu.0")
        if event["Action"] == "start":
            self.starts += 1
            self.gpus[gpu] += 1
            if gpu in self._running.values():
                self.doubles.append(gpu)
            self._running[container] = gpu
        elif event["Action"] in {"die", "destroy"}:
            self._running.pop(container, None)


class Workers:
    """Processes of which one is killed every so often and replaced."""

    def __init__(self, arguments: list[list[str]], pause_s: tuple[float, float]) -> None:
        self._arguments = arguments
        self._pause_s = pause_s
        self._over = threading.Event()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._killer = threading.Thread(target=self._kill_now_and_then)
        self.kills = 0

    def __enter__(self) -> Self:
        self._processes = [self._spawn(index) for index in range(len(self._arguments))]
        self._killer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._killer.join()
        for process in self._processes:
            process.kill()
            process.wait()

    def _kill_now_and_then(self) -> None:
        chance = random.Random()
        while not self._over.wait(chance.uniform(*self._pause_s)):
            victim = chance.randrange(len(self._processes))
            self._processes[victim].kill()
            self._processes[victim].wait()
            self.kills += 1
            self._processes[victim] = self._spawn(victim)

    def _spawn(self, index: int) -> "subprocess.Popen[bytes]":
        return subprocess.Popen([sys.executable, "-m", "core.tests.containers.race_worker", *self._arguments[index]])


@pytest.fixture
def swept(machine: PrivateEngine) -> Iterator[None]:
    yield
    for listed in machine.engine.list_containers():
        machine.engine.remove(listed["Id"], force=True)


@pytest.mark.usefixtures("swept")
def test_two_never_run_on_one_gpu_while_launchers_are_killed(
    machine: PrivateEngine, tmp_path: Path, secrets_root: Path
) -> None:
    (tmp_path / "locks").mkdir()
    worker = [machine.socket_path, str(tmp_path), str(secrets_root), str(tmp_path / "locks"), str(GPUS)]
    referee, kills = watch(machine, Workers([worker, worker], pause_s=(0.5, 1.2)), STARTS)
    assert referee.starts >= STARTS
    assert kills >= 3
    assert len(referee.gpus) == GPUS
    assert referee.doubles == []


@pytest.mark.usefixtures("swept")
def test_two_never_run_on_one_gpu_though_they_share_no_lock(
    machine: PrivateEngine, tmp_path: Path, secrets_root: Path
) -> None:
    arguments = []
    for name in ("a", "b"):
        folders = [tmp_path / name, secrets_root / name, tmp_path / name / "own-locks"]
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        arguments.append([machine.socket_path, *map(str, folders), str(GPUS)])
    referee, _ = watch(machine, Workers(arguments, pause_s=(300, 300)), STARTS_WITHOUT_LOCK)
    assert referee.starts >= STARTS_WITHOUT_LOCK
    assert referee.doubles == []


def watch(machine: PrivateEngine, workers: Workers, starts: int) -> tuple[Referee, int]:
    """What the referee saw until `starts` containers had started, or for lack of them the time was up."""
    referee = Referee()
    events = machine.engine.events("forge.install=lab")
    deadline = time.monotonic() + 150
    try:
        with workers:
            for event in events:
                referee.take(event)
                if referee.starts >= starts or time.monotonic() > deadline:
                    break
    finally:
        events.release()
    return referee, workers.kills
