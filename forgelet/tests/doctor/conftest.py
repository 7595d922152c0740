"""A machine that has joined, and the doctor's report of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from core.tests.containers.builders import memory_folder
from e2e.support.engines import PrivateEngine, find_obstacle, private_engine
from e2e.support.images import host_image
from e2e.support.owned import owned_folder
from forgelet.tests.support.daemons import Daemon, daemon_process
from forgelet.tests.support.registrar import Registrar, serve_registrar


@pytest.fixture(scope="session")
def doctors_engine() -> Iterator[PrivateEngine]:
    obstacle = find_obstacle()
    if obstacle:
        pytest.skip(obstacle)
    with owned_folder() as root, private_engine(root) as engine:
        host_image(engine)
        yield engine


@pytest.fixture
def share() -> Iterator[Path]:
    """The console's share, whose parents a job's user can pass."""
    with owned_folder() as folder:
        folder.chmod(0o755)
        storage = folder / "storage"
        storage.mkdir()
        (storage / ".starforge-storage").write_text("storage-1\n")
        yield storage


@pytest.fixture
def registrar(share: Path) -> Iterator[Registrar]:
    with serve_registrar(Registrar(storage_root=str(share))) as registrar:
        yield registrar


@pytest.fixture
def patient(doctors_engine: PrivateEngine, tmp_path: Path) -> Iterator[Daemon]:
    """A machine that has not joined."""
    with memory_folder() as secrets, daemon_process(Daemon(tmp_path, doctors_engine.socket_path, secrets)) as daemon:
        yield daemon
