"""A real Ray over the pods of a cluster: commands on every node, roles of two pools, and a node that is lost."""

from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.support.engines import PrivateEngine
from e2e.support.ray_python import find_ray_python
from e2e.support.ready import ready_engine
from server.tests.executors.conformance import run
from server.tests.executors.kuberay.on_kube import KubeHarness, kube_harness
from starforge.containers.labels import name_container
from starforge.contract.launch import LaunchRequest, PoolRequest
from starforge.contract.observation import EndCause, Phase

pytestmark = [pytest.mark.kube_ray, pytest.mark.timeout(600)]

GIB = 1024**3
POOLS = (
    PoolRequest(name="actor", nodes=2, gpus_per_node=2, cpus=1, memory_bytes=GIB),
    PoolRequest(name="rollout", nodes=1, gpus_per_node=1, cpus=1, memory_bytes=GIB),
)
DRIVER = """
import os, ray, sys
ray.init(address=os.environ["RAY_ADDRESS"], log_to_driver=False, logging_level="WARNING")
def where():
    return os.environ["FORGE_POD_NAME"], len(ray.get_gpu_ids())
two = ray.remote(num_gpus=2, num_cpus=0)(where)
one = ray.remote(num_gpus=1, num_cpus=0)(where)
nodes = sorted(node["Resources"].get("GPU", 0) for node in ray.nodes() if node["Alive"])
with open("seen", "w") as file:
    print(nodes, sorted(count for _, count in ray.get([two.remote(), one.remote()])), file=file)
sys.exit(7)
"""


@pytest.fixture(scope="module")
def python() -> Path:
    python = find_ray_python()
    if python is None:
        pytest.skip("Ray could not be fetched, or there is no Python that any user may run")
    return python


@pytest.fixture(scope="module")
def machine() -> Iterator[PrivateEngine]:
    with ready_engine() as machine:
        yield machine


@pytest.fixture
def harness(machine: PrivateEngine, python: Path, tmp_path: Path) -> Iterator[KubeHarness]:
    with kube_harness(machine, tmp_path, ray_python=python) as harness:
        harness.lab.add_node("n2", gpus=4)
        harness.lab.add_node("n3", gpus=4)
        yield harness


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three Rays on one machine take longer to start than anything else does."""
    monkeypatch.setattr("server.tests.executors.conformance._DEADLINE_S", 300)


def play(harness: KubeHarness, scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run(harness, scenario())


def make(harness: KubeHarness, python: Path, script: str, *, spans_ray: bool = False) -> LaunchRequest:
    env = {"FORGE_PYTHON": str(python)}
    return harness.make_request(script=script, pools=POOLS, env=env, spans_ray=spans_ray)


async def end(harness: KubeHarness, request: LaunchRequest) -> int | None:
    """Its exit code."""
    ended = await harness.settle(request.attempt, Phase.EXITED)
    assert ended.exit is not None, (ended, read_logs(request))
    return ended.exit.code


def read(request: LaunchRequest, name: str) -> str:
    """A file of the attempt's directory."""
    return Path(request.workdir, name).read_text()


def write(request: LaunchRequest, name: str, text: str) -> None:
    Path(request.workdir, name).write_text(text)


def read_logs(request: LaunchRequest) -> str:
    return "\n".join(path.read_text() for path in sorted(Path(request.workdir, ".kuberay").glob("log*")))


def test_a_command_runs_once_on_every_node(harness: KubeHarness, python: Path) -> None:
    async def scenario() -> None:
        script = "echo $FORGE_POOL_INDEX $FORGE_LEADER_ADDR $FORGE_POD_IP >rank-$FORGE_NODE_RANK; exit 0"
        request = make(harness, python, script)
        await harness.launch(request)
        assert await end(harness, request) == 0, read_logs(request)
        ranks = [read(request, f"rank-{rank}").split() for rank in range(3)]
        assert [pool for pool, _, _ in ranks] == ["0", "0", "1"]
        addresses = [address for _, _, address in ranks]
        assert len(set(addresses)) == 3
        assert {leader for _, leader, _ in ranks} == {addresses[0]}

    play(harness, scenario)


def test_the_first_node_to_fail_ends_the_others(harness: KubeHarness, python: Path) -> None:
    async def scenario() -> None:
        script = "if [ $FORGE_NODE_RANK = 2 ]; then exit 5; fi; trap 'echo x >told-$FORGE_NODE_RANK; exit 0' TERM; "
        request = make(harness, python, script + "while :; do sleep 0.1; done")
        await harness.launch(request)
        assert await end(harness, request) == 5, read_logs(request)
        assert [read(request, f"told-{rank}") for rank in range(2)] == ["x\n", "x\n"]

    play(harness, scenario)


def test_a_ray_of_two_pools_has_the_gpus_of_both(harness: KubeHarness, python: Path) -> None:
    async def scenario() -> None:
        request = make(harness, python, f"echo x >>starts; {python} driver.py", spans_ray=True)
        write(request, "driver.py", DRIVER)
        await harness.launch(request)
        assert await end(harness, request) == 7, read_logs(request)
        assert read(request, "seen") == "[1.0, 2.0, 2.0] [1, 2]\n"
        assert harness.count_starts(request.attempt) == 1

    play(harness, scenario)


def test_a_worker_that_is_lost_fails_the_attempt(harness: KubeHarness, python: Path) -> None:
    async def scenario() -> None:
        request = make(harness, python, "echo x >>starts; while :; do sleep 0.1; done")
        await harness.launch(request)
        while harness.count_starts(request.attempt) < 3:
            await harness.settle(request.attempt, Phase.RUNNING)
        pods = harness.lab.operator.list_pods(name_container(request.attempt))
        (worker,) = [pod for pod in pods if pod["metadata"]["labels"]["forge.pool"] == "rollout"]
        harness.lab.kubelet.lose(worker)
        ended = await harness.settle(request.attempt, Phase.EXITED)
        assert ended.exit is not None
        assert (ended.exit.code, ended.exit.cause) == (None, EndCause.NODE_FAILED), read_logs(request)

    play(harness, scenario)
