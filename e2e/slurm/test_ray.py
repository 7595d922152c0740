"""A real Ray over two nodes of a real Slurm: head, worker, the command on the first node, and nothing left."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from e2e.support.ray_python import find_ray_python
from e2e.support.slurm_lab import SlurmLab
from server.tests.executors.slurm.on_slurm import ready_lab, slurm_harness
from starforge.contract.observation import Phase

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(600)]

DRIVER = """
import os, ray, sys
ray.init(address=os.environ["RAY_ADDRESS"], log_to_driver=False, logging_level="WARNING")
@ray.remote(num_gpus=2, num_cpus=1)
def where():
    import time
    time.sleep(1)
    return os.environ["SLURMD_NODENAME"], len(ray.get_gpu_ids())
with open("seen", "w") as file:
    print(sorted(ray.get([where.remote(), where.remote()])), file=file)
sys.exit(7)
"""


@pytest.fixture
def lab() -> Iterator[SlurmLab]:
    with ready_lab() as lab:
        yield lab


def read_logs(folder: Path) -> str:
    return "\n".join(path.read_text() for path in sorted(folder.glob(".slurm/*log")))


def test_ray_spans_the_nodes_and_ends_with_its_command(lab: SlurmLab, tmp_path: Path) -> None:
    python = find_ray_python()
    if python is None:
        pytest.skip("Ray could not be fetched, or there is no Python that any user may run")
    with slurm_harness(lab, tmp_path, partition="main") as harness:
        request = harness.make_request(gpus=2, script=f"echo x >>starts; {python} driver.py")
        Path(request.workdir, "driver.py").write_text(DRIVER)
        (pool,) = request.pools
        pool = replace(pool, nodes=2, cpus=2, memory_bytes=2 * 1024**3)
        request = replace(request, pools=(pool,), env={"FORGE_PYTHON": str(python)}, spans_ray=True)

        async def scenario() -> None:
            await harness.launch(request)
            ended = await harness.settle(request.attempt, Phase.EXITED)
            assert ended.exit is not None
            assert ended.exit.code == 7, read_logs(Path(request.workdir))
            await harness.executor.close()

        asyncio.run(scenario())
        seen = Path(request.workdir, "seen").read_text().strip()
        assert seen == str([(node, 2) for node in lab.nodes[:2]])
        assert harness.count_starts(request.attempt) == 1
        assert not [line for line in lab.list_pids().values() if "raylet" in line or "gcs_server" in line]
        assert not list(Path("/tmp").glob("ray-*/session_*"))  # noqa: S108 - where Ray's sockets lie
