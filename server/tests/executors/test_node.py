"""The node executor on a real forgelet and a real engine, with a relay between console and daemon."""

import asyncio
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from core.tests.containers.builders import memory_folder, wait_until
from core.tests.containers.conftest import remove_all
from e2e.support.engines import PrivateEngine
from e2e.support.proxy import EngineProxy, engine_proxy
from e2e.support.ready import ready_engine
from e2e.support.relay import Relay, relay
from forgelet.tests.support.daemons import Daemon, daemon_process, wait_for_epoch
from forgelet.tests.support.registrar import INSTALL, Registrar, serve_registrar
from server.tests.executors.conformance import run
from server.tests.executors.on_engine import EngineConformance, EngineHarness
from starforge.contract.executor import Executor, FleetView, GpuState
from starforge.contract.ids import AttemptId
from starforge.contract.observation import NoSignal, Phase
from starforge.contract.wire import NodeReport
from starforge.errors import BackendUnreachable, NodeFault
from starforge_console.domain.nodes import NodeState
from starforge_console.executors.node.directory import KnownNode
from starforge_console.executors.node.fleet import NodeExecutor
from starforge_console.executors.node.link import LinkSettings

pytestmark = pytest.mark.engine


class OneNode:
    """A directory of one machine, which every attempt was sent to."""

    def __init__(self, registrar: Registrar, port: int) -> None:
        self.node = KnownNode(
            name="n3",
            fleet="gpu",
            advertise=f"127.0.0.1:{port}",
            certificate=registrar.node_certificate,
            standing=NodeState.ACTIVE,
            fence=0,
        )
        self.reached: list[str] = []
        self._wakes: list[Callable[[], None]] = []
        registrar.heard = self.hear
        self.hear(registrar.reports[-1])

    def hear(self, report: NodeReport) -> None:
        self.node = replace(self.node, report=report, heard_at=time.monotonic())
        for wake in self._wakes:
            wake()

    def nodes(self, fleet: str) -> Sequence[KnownNode]:
        return [self.node] if fleet == "gpu" else []

    async def locate(self, attempts: Collection[AttemptId]) -> Mapping[AttemptId, KnownNode]:
        return dict.fromkeys(attempts, self.node)

    def note_reach(self, name: str, why: str) -> bool:
        assert name == "n3"
        is_news = self.node.reach != why
        self.node = replace(self.node, reach=why)
        self.reached.append(why)
        return is_news

    def note_report(self, name: str, report: NodeReport) -> None:
        raise AssertionError(f"{name} sends heartbeats: {report}")

    def subscribe(self, fleet: str, wake: Callable[[], None]) -> Callable[[], None]:
        assert fleet == "gpu"
        self._wakes.append(wake)
        return lambda: self._wakes.remove(wake)


class NodeHarness(EngineHarness):
    def __init__(  # noqa: PLR0913, PLR0917 - the parts of one machine
        self,
        machine: PrivateEngine,
        proxy: EngineProxy,
        registrar: Registrar,
        daemon: Daemon,
        between: Relay,
        root: Path,
    ) -> None:
        super().__init__(machine, proxy, root, daemon.secrets_dir)
        self._registrar = registrar
        self._between = between
        self._key_file = root / "console.pem"
        self._key_file.write_text(registrar.identity_pem)
        self.daemon = daemon
        self.directory = OneNode(registrar, between.port)
        self.executor = self._open()

    def is_told(self, attempt: AttemptId, phase: Phase) -> bool:
        # Capacity is what the newest heartbeat told, and that comes a moment after.
        told = self.directory.node.report
        return told is not None and told.attempts.get(attempt) == phase.value

    def make_unreachable(self) -> None:
        self._between.cut()

    def make_reachable(self) -> None:
        self._between.heal()

    async def restart(self) -> None:
        await self.executor.close()
        epoch = self._registrar.epoch
        await asyncio.to_thread(self.daemon.kill)
        await asyncio.to_thread(self._machine.kill)
        await asyncio.to_thread(self._machine.start)
        await asyncio.to_thread(self.daemon.start)
        await asyncio.to_thread(wait_for_epoch, self._registrar, epoch + 1)
        self.executor = self._open()

    def read_visible(self, attempt: AttemptId) -> str:
        return super().read_visible(attempt) + self.daemon.log.read_text()

    def _open(self) -> NodeExecutor:
        settings = LinkSettings(install=INSTALL, key_file=self._key_file, request_timeout_s=15, launch_timeout_s=30)
        return NodeExecutor("gpu", self.directory, settings, lambda name: "test" if name == "Test GPU" else None)


@pytest.fixture(scope="module")
def machine() -> Iterator[PrivateEngine]:
    with ready_engine() as machine:
        yield machine


@pytest.fixture
def harness(machine: PrivateEngine, tmp_path: Path) -> Iterator[NodeHarness]:
    storage = tmp_path / "storage"
    storage.mkdir()
    (storage / ".starforge-storage").write_text("storage-1\n")
    with (
        memory_folder() as secrets,
        engine_proxy(tmp_path / "p.sock", machine.socket_path) as proxy,
        serve_registrar(Registrar(storage_root=str(storage))) as registrar,
        daemon_process(Daemon(tmp_path, proxy.socket_path, secrets)) as daemon,
        relay(("127.0.0.1", daemon.port)) as between,
    ):
        daemon.join(registrar.url, "gpu")
        daemon.start()
        wait_for_epoch(registrar, 1)
        harness = NodeHarness(machine, proxy, registrar, daemon, between, tmp_path)
        asyncio.run(_greet(harness.executor))
        yield harness
    remove_all(machine)


class TestNodeKeepsThePromises(EngineConformance):
    pass


async def _greet(executor: Executor) -> None:
    """Reach the machine once, as a console that starts does."""
    await executor.start(lambda: None)
    await executor.close()


async def _view(harness: NodeHarness) -> FleetView:
    view = await harness.executor.capacity()
    assert isinstance(view, FleetView)
    return view


def test_a_silent_machine_shows_its_gpus_as_blocked_and_takes_nothing(harness: NodeHarness) -> None:
    async def scenario() -> None:
        harness.make_unreachable()
        request = harness.make_request()
        answer = (await harness.executor.observe([request.attempt]))[request.attempt]
        assert isinstance(answer, NoSignal)
        (node,) = (await _view(harness)).nodes
        assert {gpu.state for gpu in node.gpus} == {GpuState.BLOCKED}
        assert not node.accepts
        assert node.why_not.startswith("unreachable from console: ")
        harness.make_reachable()
        await harness.executor.observe([request.attempt])
        (node,) = (await _view(harness)).nodes
        assert node.accepts
        assert {gpu.state for gpu in node.gpus} == {GpuState.FREE}

    run(harness, scenario())


def test_an_answer_lost_on_the_way_leaves_the_launch_unknown_and_a_repeat_safe(harness: NodeHarness) -> None:
    async def scenario() -> None:
        request = harness.make_request()
        target = harness.executor.place(request, await _view(harness))
        harness._between.lose_answers()
        with pytest.raises(BackendUnreachable, match="cut the connection"):
            await harness.executor.launch(request, target)  # type: ignore[arg-type]  # an empty machine has room
        harness.make_reachable()
        await harness.settle(request.attempt, Phase.RUNNING)
        await harness.executor.launch(request, target)  # type: ignore[arg-type]  # the same
        assert harness.count_starts(request.attempt) == 1

    run(harness, scenario())


def test_an_exit_wakes_the_console_before_the_next_heartbeat_is_due(harness: NodeHarness) -> None:
    async def scenario() -> None:
        harness._registrar.heartbeat_s = 60
        woken = threading.Event()
        request = harness.make_request()
        await harness.executor.launch(request, harness.executor.place(request, await _view(harness)))  # type: ignore[arg-type]  # the same
        await harness.settle(request.attempt, Phase.RUNNING)
        await harness.executor.start(woken.set)
        woken.clear()
        await harness.finish(request, 0)
        assert await asyncio.to_thread(woken.wait, 20)
        await harness.executor.close()

    run(harness, scenario())


@pytest.mark.parametrize("standing", [NodeState.DRAINING, NodeState.LOST, NodeState.REMOVED])
def test_a_machine_that_is_to_take_nothing_is_no_place(harness: NodeHarness, standing: NodeState) -> None:
    async def scenario() -> None:
        harness.directory.node = replace(harness.directory.node, standing=standing)
        (node,) = (await _view(harness)).nodes
        assert not node.accepts
        assert node.why_not

    run(harness, scenario())


def test_a_launch_at_a_machine_that_was_marked_lost_meanwhile_leaves_nothing(harness: NodeHarness) -> None:
    async def scenario() -> None:
        request = harness.make_request()
        target = harness.executor.place(request, await _view(harness))
        harness.directory.node = replace(harness.directory.node, standing=NodeState.LOST)
        with pytest.raises(NodeFault):
            await harness.executor.launch(request, target)  # type: ignore[arg-type]  # an empty machine has room
        harness.directory.node = replace(harness.directory.node, standing=NodeState.ACTIVE, fence=1)
        with pytest.raises(NodeFault, match="marked lost"):
            await harness.executor.launch(request, target)  # type: ignore[arg-type]  # the same
        assert harness.count_starts(request.attempt) == 0

    run(harness, scenario())


def test_a_daemon_that_trusts_another_console_is_told_apart_from_one_that_died(harness: NodeHarness) -> None:
    async def scenario() -> None:
        harness.daemon.join(harness._registrar.url, "gpu")  # the console's directory still has the old certificate
        wait_until(lambda: harness._registrar.epoch == 2, "the daemon has begun anew")
        harness.directory.reached.clear()
        request = harness.make_request()
        with pytest.raises(BackendUnreachable, match="another certificate"):
            await harness.executor.launch(request, harness.executor.place(request, await _view(harness)))  # type: ignore[arg-type]  # the same
        assert "join" in harness.directory.reached[-1]

    run(harness, scenario())
