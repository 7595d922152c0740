"""An attempt of several nodes on a real Ray: each node runs its script once, with its rank, and all end together."""

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from core.tests.containers.builders import make_request, wait_until
from e2e.support.ray_python import find_ray_python
from starforge.contract.launch import PoolRequest
from starforge_console.executors.kuberay.folder import Ended, KubeFolder
from starforge_console.executors.kuberay.spread import ENV_OTHERS, ENV_POOL

pytestmark = pytest.mark.timeout(300)

POOLS = (
    PoolRequest(name="actor", nodes=2, gpus_per_node=0, cpus=1, memory_bytes=10**9),
    PoolRequest(name="rollout", nodes=1, gpus_per_node=0, cpus=1, memory_bytes=10**9),
)
PODS = {"head": 0, "a-worker": 1, "z-worker": 0}
"""Pool by pod: names that would be in another order without it."""
TELLS = (
    'echo "$FORGE_POD_NAME $FORGE_LEADER_ADDR ${OMP_NUM_THREADS:-none} ${CUDA_VISIBLE_DEVICES-none}"'
    ' >"rank-$FORGE_NODE_RANK"'
)
WAITS = f"{TELLS}; trap 'echo ended >>rank-$FORGE_NODE_RANK; exit 0' TERM; while :; do sleep 0.05; done"


@dataclass
class RayCluster:
    """Ray's nodes on this machine, as its pods would be."""

    python: Path
    root: Path
    port: int
    others: int
    processes: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)
    sessions: list[int] = field(default_factory=list)

    def start(self, pod: str, *words: str) -> None:
        command = [
            str(self.python),
            "-c",
            "import sys; from ray.scripts.scripts import main; sys.exit(main())",
            "start",
        ]
        limits = ["--block", "--num-cpus=1", "--num-gpus=0", "--object-store-memory=80000000", "--disable-usage-stats"]
        log = (self.root / f"{pod}.log").open("wb")
        self.processes[pod] = subprocess.Popen(
            [*command, *limits, *words], env=self.name_pod(pod), stdout=log, stderr=subprocess.STDOUT, cwd=self.root
        )
        log.close()
        wait_until(lambda: "Ray runtime started" in (self.root / f"{pod}.log").read_text(), f"{pod} runs", 90)

    def name_pod(self, pod: str) -> dict[str, str]:
        own = {
            "FORGE_POD_NAME": pod,
            "FORGE_POD_UID": f"uid-{pod}",
            "FORGE_POD_IP": "127.0.0.1",
            "FORGE_PYTHON": str(self.python),
            "RAY_ADDRESS": f"127.0.0.1:{self.port}",
            ENV_POOL: str(PODS[pod]),
            ENV_OTHERS: str(self.others),
        }
        return {**os.environ, **own, "RAY_DISABLE_IMPORT_WARNING": "1"}

    def close(self) -> None:
        for session in self.sessions:
            subprocess.run(["pkill", "-KILL", "-s", str(session)], check=False)
        for process in reversed(self.processes.values()):
            process.terminate()
        for process in self.processes.values():
            process.wait(60)
        self.processes.clear()


@contextlib.contextmanager
def ray_cluster(root: Path, port: int, *pods: str) -> Iterator[RayCluster]:
    """Ray with these pods beside the head; the test is skipped, with the reason, where there is none."""
    python = find_ray_python()
    if python is None:
        pytest.skip("Ray could not be fetched, or there is no Python that any user may run")
    cluster = RayCluster(python, root, port, len(pods))
    with tempfile.TemporaryDirectory(prefix="ray-") as temp:  # its sockets' paths must be short
        try:
            local = "--node-ip-address=127.0.0.1"
            cluster.start("head", "--head", f"--port={port}", local, "--include-dashboard=false", f"--temp-dir={temp}")
            for pod in pods:  # one after the other: they share the ports of one machine
                cluster.start(pod, f"--address=127.0.0.1:{port}", local)
            yield cluster
        finally:
            cluster.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayCluster]:
    with ray_cluster(tmp_path_factory.mktemp("ray"), 26_379, "z-worker", "a-worker") as cluster:
        yield cluster


class Attempt:
    """An attempt whose first node is the head."""

    def __init__(self, cluster: RayCluster, script: str, pools: tuple[PoolRequest, ...] = POOLS) -> None:
        request = make_request(cluster.root, script, pools=pools, user=None)
        self.workdir = Path(request.workdir)
        self.folder = KubeFolder(request.workdir)
        self.folder.prepare_scripts(request)
        env = {**cluster.name_pod("head"), "OMP_NUM_THREADS": "1"}
        self.running = subprocess.Popen(["bash", self.workdir / ".kuberay/entry.sh"], env=env, start_new_session=True)
        cluster.sessions.append(self.running.pid)

    def read(self) -> dict[int, list[str]]:
        """What each rank wrote, in lines."""
        found = {int(path.name.removeprefix("rank-")): path.read_text() for path in self.workdir.glob("rank-*")}
        return {rank: text.splitlines() for rank, text in sorted(found.items())}

    def wait_for(self, nodes: int) -> None:
        wait_until(lambda: len([1 for lines in self.read().values() if lines]) == nodes, "all nodes run", 60)

    def wait(self) -> int:
        code = self.running.wait(60)
        assert not [path for path in self.workdir.glob(".kuberay/alive-*") if path.exists()]
        return code


def test_every_node_runs_it_once_in_the_order_of_the_pools(cluster: RayCluster) -> None:
    attempt = Attempt(cluster, TELLS)
    assert attempt.wait() == 0, (attempt.workdir / ".kuberay/log").read_text()
    ends = "127.0.0.1 none none"
    assert attempt.read() == {0: [f"head {ends}"], 1: [f"z-worker {ends}"], 2: [f"a-worker {ends}"]}
    assert attempt.folder.find_ended() == Ended(code=0)


def test_the_first_node_that_fails_ends_the_others(cluster: RayCluster) -> None:
    fails = '[ "$FORGE_NODE_RANK" != 2 ] || { until [ -s rank-0 ] && [ -s rank-1 ]; do sleep 0.05; done; exit 5; }'
    script = f"{fails}; {WAITS}"
    attempt = Attempt(cluster, script)
    assert attempt.wait() == 5
    assert attempt.folder.find_ended() == Ended(code=5)
    assert [attempt.read()[rank][1:] for rank in (0, 1)] == [["ended"], ["ended"]]


def test_a_wish_to_stop_reaches_every_node(cluster: RayCluster) -> None:
    attempt = Attempt(cluster, WAITS)
    attempt.wait_for(3)
    attempt.folder.ask_to_end(30)
    assert attempt.wait() == 0
    assert [lines[1:] for lines in attempt.read().values()] == [["ended"]] * 3


def test_a_node_that_is_lost_ends_the_attempt_as_the_platforms_fault(tmp_path: Path) -> None:
    with ray_cluster(tmp_path, 26_479, "z-worker") as cluster:
        attempt = Attempt(cluster, WAITS, pools=POOLS[:1])
        attempt.wait_for(2)
        cluster.processes["z-worker"].terminate()
        assert attempt.running.wait(60) == 195
        assert attempt.folder.find_ended() == Ended(code=195)
        assert attempt.read()[0][1:] == ["ended"]
