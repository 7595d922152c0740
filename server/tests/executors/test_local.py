"""The local executor on a real engine behind a proxy that can lose, hold and refuse."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.tests.containers.builders import make_host, make_settings, memory_folder
from e2e.support.engines import PrivateEngine
from e2e.support.proxy import EngineProxy, engine_proxy
from e2e.support.ready import ready_engine
from server.tests.executors.on_engine import EngineConformance, EngineHarness
from starforge.containers.engine import Engine
from starforge.containers.host import ContainerHost
from starforge.contract.executor import FleetView
from starforge.contract.observation import Phase
from starforge_console.executors.local import LocalExecutor

pytestmark = pytest.mark.engine


class LocalHarness(EngineHarness):
    def __init__(self, machine: PrivateEngine, proxy: EngineProxy, root: Path, secrets_root: Path) -> None:
        super().__init__(machine, proxy, root, secrets_root)
        self._secrets_root = secrets_root
        self._hosts: list[ContainerHost] = []
        self.executor = self._open()

    def make_unreachable(self) -> None:
        self._proxy.go_away()

    def make_reachable(self) -> None:
        self._proxy.come_back()

    async def restart(self) -> None:
        await self.executor.close()
        await asyncio.to_thread(self._machine.kill)
        await asyncio.to_thread(self._machine.start)
        self.executor = self._open()

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
    with ready_engine() as machine:
        yield machine


@pytest.fixture
def harness(machine: PrivateEngine, tmp_path: Path) -> Iterator[LocalHarness]:
    with memory_folder() as secrets_root, engine_proxy(tmp_path / "p.sock", machine.socket_path) as proxy:
        harness = LocalHarness(machine, proxy, tmp_path, secrets_root)
        yield harness
        proxy.come_back()
        harness.close()


class TestLocalKeepsThePromises(EngineConformance):
    pass


def test_the_local_fleet_names_the_series_of_its_gpus(harness: LocalHarness) -> None:
    async def capacity() -> FleetView:
        view = await harness.executor.capacity()
        assert isinstance(view, FleetView)
        return view

    assert [gpu.series for gpu in asyncio.run(capacity()).nodes[0].gpus] == [None] * 4


def test_logs_of_an_attempt_come_as_chunks(harness: LocalHarness) -> None:
    async def read() -> bytes:
        request = harness.make_request(script="echo hello; exit 0")
        view = await harness.executor.capacity()
        assert isinstance(view, FleetView)
        target = harness.executor.place(request, view)
        await harness.executor.launch(request, target)  # type: ignore[arg-type]  # an empty machine has room
        await harness.settle(request.attempt, Phase.EXITED)
        return b"".join([chunk.content async for chunk in harness.executor.logs(request.attempt)])

    assert asyncio.run(read()) == b"hello\n"
