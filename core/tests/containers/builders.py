"""Small builders for tests of one host's containers."""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from e2e.support.images import HOST_IMAGE
from e2e.support.owned import MEMORY, owned_folder
from starforge.containers.engine import Engine
from starforge.containers.gpus import GpuSource, MadeUpGpus
from starforge.containers.host import ContainerHost
from starforge.containers.settings import GpuRuntime, HostSettings
from starforge.contract.ids import AttemptId, Digest, job_of, new_attempt_id, new_job_id, number_of
from starforge.contract.launch import LaunchRequest, Mount, Network, PoolRequest
from starforge.contract.observation import Observation, Phase, Seen

INSTALL = "lab"
WAIT_FOR_CODE = "until [ -s code ]; do sleep 0.02; done; exit $(cat code)"
"""A job that ends when the test writes its exit code into the file `code` of its directory."""


def new_attempt() -> AttemptId:
    return new_attempt_id(new_job_id(), 1)


def make_request(workdir: Path, script: str = WAIT_FOR_CODE, **changes: Any) -> LaunchRequest:
    """A job with one GPU in the host image; its directory is made and belongs to user 1000."""
    attempt = changes.pop("attempt", None) or new_attempt()
    gpus = changes.pop("gpus", 1)
    folder = workdir / attempt
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o777)
    request = LaunchRequest(
        attempt=attempt,
        job=job_of(attempt),
        number=number_of(attempt),
        install=INSTALL,
        fleet="here",
        image=HOST_IMAGE,
        command=("-c", script),
        workdir=str(folder),
        user="1000:1000",
        env={},
        secrets={},
        mounts=(Mount(str(folder), str(folder), read_only=False),),
        pools=(PoolRequest(name="main", nodes=1, gpus_per_node=gpus, cpus=0.05, memory_bytes=64 * 1024**2),),
        labels={},
        network=Network.NONE,
        grace_s=5,
        max_runtime_s=None,
        shm_bytes=None,
        capsule_digest=Digest("sha256:" + "0" * 64),
        ingest_url="http://127.0.0.1:7081",
    )
    return replace(request, **changes)


@contextlib.contextmanager
def memory_folder() -> Iterator[Path]:
    """A folder on tmpfs, where secrets may lie."""
    with owned_folder(MEMORY) as folder:
        yield folder


def make_settings(root: Path, secrets_root: Path, **changes: Any) -> HostSettings:
    (root / "locks").mkdir(parents=True, exist_ok=True)
    settings = HostSettings(
        install=INSTALL,
        node="n1",
        state_dir=root / "state",
        secrets_root=secrets_root,
        gpu_runtime=GpuRuntime.NONE,
        lock_dir=root / "locks",
        engine_pid_file=root / "docker.pid",
    )
    return replace(settings, **changes)


def make_host(engine: Engine, settings: HostSettings, gpus: GpuSource | None = None) -> ContainerHost:
    return ContainerHost(engine, gpus or MadeUpGpus(4, "Test GPU", "n1"), settings)


def wait_until(holds: Callable[[], bool], what: str, timeout_s: float = 30.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s:g} s: {what}")
        time.sleep(0.02)


def see(host: ContainerHost, attempt: AttemptId) -> Observation:
    return host.observe([attempt])[attempt]


def wait_for(host: ContainerHost, attempt: AttemptId, phase: Phase, timeout_s: float = 30.0) -> Seen:
    """What is seen of `attempt` once it is at `phase`."""
    seen: list[Seen] = []

    def is_there() -> bool:
        found = see(host, attempt)
        if isinstance(found, Seen) and found.phase is phase:
            seen.append(found)
        return bool(seen)

    wait_until(is_there, f"{attempt} at {phase}; it is {see(host, attempt)}", timeout_s)
    return seen[0]


def finish(request: LaunchRequest, code: int) -> None:
    """Let the job end with `code`."""
    unfinished = Path(request.workdir) / ".code"
    unfinished.write_text(str(code))
    unfinished.replace(Path(request.workdir) / "code")
