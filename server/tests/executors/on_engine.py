"""What harnesses over a real engine have in common: jobs that count their starts, and a proxy before the engine."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

from core.tests.containers.builders import finish, make_request
from e2e.support.engines import PrivateEngine
from e2e.support.proxy import EngineProxy
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

    def __init__(self, machine: PrivateEngine, proxy: EngineProxy, root: Path) -> None:
        self._machine = machine
        self._proxy = proxy
        self._root = root
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

    def read_visible(self, attempt: AttemptId) -> str:
        inspected = self._machine.engine.inspect(name_container(attempt))
        return json.dumps([inspected, self._machine.engine.list_containers()])
