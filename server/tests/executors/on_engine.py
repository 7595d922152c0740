"""What harnesses over a real engine have in common: jobs that count their starts, and a proxy before the engine."""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from core.tests.containers.builders import finish, make_request
from e2e.support.engines import PrivateEngine
from e2e.support.proxy import EngineProxy
from server.tests.executors.conformance import SECRET, Conformance, launch, run
from server.tests.executors.harness import Harness
from starforge.containers.labels import name_container
from starforge.contract.executor import Executor
from starforge.contract.ids import AttemptId
from starforge.contract.launch import LaunchRequest, Secret
from starforge.contract.observation import Phase, Seen
from starforge.errors import LaunchRefused

COUNTS = "echo x >>starts; until [ -s code ]; do sleep 0.02; done; exit $(cat code)"


class Held:
    def __init__(self, launching: "asyncio.Future[None]", let_pass: Callable[[], None]) -> None:
        self._launching = launching
        self._let_pass = let_pass

    async def let_pass(self) -> None:
        self._let_pass()
        try:
            await self._launching
        except LaunchRefused:
            return


class EngineHarness:
    """To be completed with what lies between the executor and the engine; `executor` is set there."""

    total_gpus = 4
    executor: Executor

    def __init__(self, machine: PrivateEngine, proxy: EngineProxy, root: Path, memory: Path) -> None:
        self._machine = machine
        self._proxy = proxy
        self._root = root
        self._memory = memory
        self._workdirs: dict[AttemptId, Path] = {}

    def make_request(self, *, gpus: int = 1, secret: str = "", script: str = COUNTS) -> LaunchRequest:
        secrets = {"TOKEN": Secret(secret)} if secret else {}
        request = make_request(self._root, script, gpus=gpus, secrets=secrets)
        self._workdirs[request.attempt] = Path(request.workdir)
        return request

    async def finish(self, request: LaunchRequest, code: int) -> None:
        finish(request, code)

    async def settle(self, attempt: AttemptId, phase: Phase) -> Seen:
        while True:
            seen = (await self.executor.observe([attempt]))[attempt]
            # A job that runs has written its first line a moment later.
            begun = phase is not Phase.RUNNING or self.count_starts(attempt)
            if isinstance(seen, Seen) and seen.phase is phase and begun and self.is_told(attempt, phase):
                return seen
            await asyncio.sleep(0.02)

    def is_told(self, attempt: AttemptId, phase: Phase) -> bool:
        """Whether all that the executor answers from knows of it."""
        del attempt, phase
        return True

    def lose_next_launch_reply(self) -> None:
        self._proxy.lose_reply("/start")

    async def hold_next_launch(self, launch: Callable[[], Awaitable[None]]) -> Held:
        there, let_pass = self._proxy.hold("/containers/create")
        launching = asyncio.ensure_future(launch())
        await asyncio.to_thread(there.wait, 20)
        return Held(launching, let_pass.set)

    def count_starts(self, attempt: AttemptId) -> int:
        record = self._workdirs[attempt] / "starts"
        return len(record.read_text().splitlines()) if record.exists() else 0

    def find_files(self, word: str) -> list[Path]:
        """Files on the disks of console and machine, and in the memory for secrets, that hold `word`."""
        files = [file for root in (self._root, self._memory) for file in root.rglob("*") if file.is_file()]
        return [file for file in files if word.encode() in _read(file)]

    def is_in_memory(self, file: Path) -> bool:
        """Whether it lies where secrets may."""
        return self._memory in file.parents

    def read_visible(self, attempt: AttemptId) -> str:
        inspected = self._machine.engine.inspect(name_container(attempt))
        return json.dumps([inspected, self._machine.engine.list_containers()])


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:  # it has gone since it was listed
        return b""


class OnEngine(Harness, Protocol):
    """A whole harness over an engine."""

    def make_request(self, *, gpus: int = 1, secret: str = "", script: str = COUNTS) -> LaunchRequest:
        """As every harness does; the attempt runs `script`."""

    def find_files(self, word: str) -> list[Path]:
        """Files on the disks of console and machine, and in the memory for secrets, that hold `word`."""

    def is_in_memory(self, file: Path) -> bool:
        """Whether it lies where secrets may."""


class EngineConformance(Conformance):
    """The promises, and what only files can show of them."""

    def test_a_secret_lies_in_memory_alone_and_nowhere_after_the_cleanup(self, harness: OnEngine) -> None:
        async def scenario() -> None:
            request = harness.make_request(
                secret=SECRET, script=f"cat /run/starforge/TOKEN | sha256sum >given; {COUNTS}"
            )
            await launch(harness, request)
            await harness.settle(request.attempt, Phase.RUNNING)
            held = harness.find_files(SECRET)
            assert held
            assert all(map(harness.is_in_memory, held))
            given = (Path(request.workdir) / "given").read_text().split()[0]
            assert given == hashlib.sha256(SECRET.encode()).hexdigest()
            await harness.finish(request, 0)
            await harness.settle(request.attempt, Phase.EXITED)
            await harness.executor.cleanup(request.attempt)
            assert harness.find_files(SECRET) == []

        run(harness, scenario())
