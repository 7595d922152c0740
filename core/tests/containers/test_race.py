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

    def __init__(self, arguments: list[str], count: int) -> None:
        self._arguments = arguments
        self._over = threading.Event()
        self._processes = [self._spawn() for _ in range(count)]
        self._killer = threading.Thread(target=self._kill_now_and_then)
        self.kills = 0

    def __enter__(self) -> Self:
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
        while not self._over.wait(chance.uniform(0.5, 1.2)):
            victim = chance.randrange(len(self._processes))
            self._processes[victim].kill()
            self._processes[victim].wait()
            self.kills += 1
            self._processes[victim] = self._spawn()

    def _spawn(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen([sys.executable, "-m", "core.tests.containers.race_worker", *self._arguments])


@pytest.fixture
def swept(machine: PrivateEngine) -> Iterator[None]:
    yield
    for listed in machine.engine.list_containers():
        machine.engine.remove(listed["Id"], force=True)


@pytest.mark.usefixtures("swept")
def test_two_never_run_on_one_gpu(machine: PrivateEngine, tmp_path: Path, secrets_root: Path) -> None:
    referee = Referee()
    events = machine.engine.events("forge.install=lab")
    deadline = time.monotonic() + 150
    try:
        with Workers([machine.socket_path, str(tmp_path), str(secrets_root), str(GPUS)], 2) as workers:
            for event in events:
                referee.take(event)
                if referee.starts >= STARTS or time.monotonic() > deadline:
                    break
    finally:
        events.release()
    assert referee.starts >= STARTS
    assert workers.kills >= 3
    assert len(referee.gpus) == GPUS
    assert referee.doubles == []
