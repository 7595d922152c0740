"""The local executor on a real engine behind a proxy that can lose, hold and refuse."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from core.tests.containers.builders import finish, make_host, make_request, make_settings, memory_folder
from e2e.support.engines import PrivateEngine, find_obstacle, private_engine
from e2e.support.images import host_image
from e2e.support.owned import owned_folder
from e2e.support.proxy import EngineProxy, engine_proxy
from server.tests.executors.conformance import Conformance
from starforge.containers.engine import Engine
from starforge.containers.host import ContainerHost
from starforge.containers.labels import name_container
from starforge.contract.executor import Executor, FleetView
from starforge.contract.ids import AttemptId
from starforge.contract.launch import LaunchRequest, Secret
from starforge.contract.observation import Phase, Seen
from starforge.errors import LaunchRefused
from starforge_console.executors.local import LocalExecutor

pytestmark = pytest.mark.engine

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


class LocalHarness:
    total_gpus = 4

    def __init__(self, machine: PrivateEngine, proxy: EngineProxy, root: Path, secrets_root: Path) -> None:
        self._machine = machine
        self._proxy = proxy
        self._root = root
        self._secrets_root = secrets_root
        self._hosts: list[ContainerHost] = []
        self._workdirs: dict[AttemptId, Path] = {}
        self.executor: Executor = self._open()

    def make_request(self, *, gpus: int = 1, secret: str = "") -> LaunchRequest:
        request = make_request(self._root, COUNTS, gpus=gpus, secrets={"TOKEN": Secret(secret)} if secret else {})
        self._workdirs[request.attempt] = Path(request.workdir)
        return request

    async def finish(self, request: LaunchRequest, code: int) -> None:
        finish(request, code)

    async def settle(self, attempt: AttemptId, phase: Phase) -> Seen:
        while True:
            seen = (await self.executor.observe([attempt]))[attempt]
            # A job that runs has written its first line a moment later.
            begun = phase is not Phase.RUNNING or self.count_starts(attempt)
            if isinstance(seen, Seen) and seen.phase is phase and begun:
                return seen
            await asyncio.sleep(0.02)

    def lose_next_launch_reply(self) -> None:
        self._proxy.lose_reply("/start")

    async def hold_next_launch(self, launch: Callable[[], Awaitable[None]]) -> Held:
        there, let_pass = self._proxy.hold("/containers/create")
        launching = asyncio.ensure_future(launch())
        await asyncio.to_thread(there.wait, 20)
        return Held(launching, let_pass.set)

    def make_unreachable(self) -> None:
        self._proxy.go_away()

    def make_reachable(self) -> None:
        self._proxy.come_back()

    async def restart(self) -> None:
        await self.executor.close()
        await asyncio.to_thread(self._machine.kill)
        await asyncio.to_thread(self._machine.start)
        self.executor = self._open()

    def count_starts(self, attempt: AttemptId) -> int:
        record = self._workdirs[attempt] / "starts"
        return len(record.read_text().splitlines()) if record.exists() else 0

    def read_visible(self, attempt: AttemptId) -> str:
        inspected = self._machine.engine.inspect(name_container(attempt))
        return json.dumps([inspected, self._machine.engine.list_containers()])

    def close(self) -> None:
        for host in self._hosts:
            host.close()
        for listed in self._machine.engine.list_containers():
            self._machine.engine.remove(listed["Id"], force=True)

    def _open(self) -> LocalExecutor:
        host = make_host(Engine(self._proxy.socket_path), make_settings(self._root, self._secrets_root))
        self._hosts.append(host)
        return LocalExecutor(host, "here")


@pytest.fixture(scope="module")
def machine() -> Iterator[PrivateEngine]:
    obstacle = find_obstacle()
    if obstacle:
        pytest.skip(obstacle)
    with owned_folder() as root, private_engine(root, "--live-restore") as machine:
        host_image(machine)
        yield machine


@pytest.fixture
def harness(machine: PrivateEngine, tmp_path: Path) -> Iterator[LocalHarness]:
    with memory_folder() as secrets_root, engine_proxy(tmp_path / "p.sock", machine.socket_path) as proxy:
        harness = LocalHarness(machine, proxy, tmp_path, secrets_root)
        yield harness
        proxy.come_back()
        harness.close()


class TestLocalKeepsThePromises(Conformance):
    pass


def test_the_local_fleet_names_the_series_of_its_gpus(harness: LocalHarness) -> None:
    async def capacity() -> FleetView:
        view = await harness.executor.capacity()
        assert isinstance(view, FleetView)
        return view

    assert [gpu.series for gpu in asyncio.run(capacity()).nodes[0].gpus] == [None] * 4


def test_logs_of_an_attempt_come_as_chunks(harness: LocalHarness) -> None:
    async def read() -> bytes:
        request = make_request(harness._root, "echo hello; exit 0")
        harness._workdirs[request.attempt] = Path(request.workdir)
        view = await harness.executor.capacity()
        assert isinstance(view, FleetView)
        target = harness.executor.place(request, view)
        await harness.executor.launch(request, target)  # type: ignore[arg-type]  # an empty machine has room
        await harness.settle(request.attempt, Phase.EXITED)
        return b"".join([chunk.content async for chunk in harness.executor.logs(request.attempt)])

    assert asyncio.run(read()) == b"hello\n"
