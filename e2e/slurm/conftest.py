"""One private Slurm for the tests of a whole console, and a console for each of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.support.console import ConsoleProcess, console_process, find_free_port
from e2e.support.slurm_lab import USERS, SlurmLab
from server.tests.executors.slurm.on_slurm import ready_lab


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmLab]:
    with ready_lab(gpus=8) as lab:
        yield lab


@pytest.fixture
def changes() -> dict[str, str]:
    """Settings of the console that a test changes."""
    return {}


@pytest.fixture
def console(cluster: SlurmLab, tmp_path: Path, changes: dict[str, str]) -> Iterator[ConsoleProcess]:
    """A console whose only fleet is the cluster; its jobs run as ada."""
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(folder.stat().st_mode | 0o055)
    port = find_free_port()
    settings = {
        "FORGE_DEFAULT_FLEET_KIND": "slurm",
        "FORGE_SLURM_URL": cluster.url,
        "FORGE_SLURM_USER": "ada",
        "FORGE_SLURM_KEY_FILE": str(cluster.jwt_key),
        "FORGE_SLURM_RUNTIME": "none",
        "FORGE_SLURM_POLL_S": "0.2",
        "FORGE_INGEST_LISTEN": f"127.0.0.1:{port}",
        "FORGE_INGEST_URL": f"http://127.0.0.1:{port}",
        "FORGE_JOB_UID": str(USERS["ada"]),
        "FORGE_JOB_GID": str(USERS["ada"]),
    }
    with console_process(tmp_path, "/nowhere/docker.sock", settings | changes) as running:
        yield running
    cluster.empty()
