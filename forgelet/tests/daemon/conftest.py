from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from core.tests.containers.builders import memory_folder
from core.tests.containers.conftest import remove_all
from e2e.support.engines import PrivateEngine
from e2e.support.ready import ready_engine
from forgelet.tests.support.daemons import Daemon, console_client, daemon_process, wait_for_epoch
from forgelet.tests.support.registrar import INSTALL, Registrar, serve_registrar
from starforge.contract.wire import FENCE_HEADER, INSTALL_HEADER


@pytest.fixture(scope="session")
def machine() -> Iterator[PrivateEngine]:
    with ready_engine() as machine:
        yield machine


@pytest.fixture
def registrar(tmp_path: Path) -> Iterator[Registrar]:
    storage = tmp_path / "storage"
    storage.mkdir()
    (storage / ".starforge-storage").write_text("storage-1\n")
    with serve_registrar(Registrar(storage_root=str(storage))) as registrar:
        yield registrar


@pytest.fixture
def daemon(machine: PrivateEngine, tmp_path: Path) -> Iterator[Daemon]:
    """A machine that has not joined yet; whatever it started is removed at the end."""
    with memory_folder() as secrets, daemon_process(Daemon(tmp_path, machine.socket_path, secrets)) as daemon:
        yield daemon
    remove_all(machine)


@pytest.fixture
def serving(daemon: Daemon, registrar: Registrar) -> Daemon:
    """The machine, joined and serving in its first epoch."""
    daemon.join(registrar.url, "gpu")
    daemon.start()
    wait_for_epoch(registrar, 1)
    return daemon


@pytest.fixture
def console(serving: Daemon, registrar: Registrar, tmp_path: Path) -> Iterator[httpx2.Client]:
    """The console that the machine joined, asking with a valid fence."""
    headers = {INSTALL_HEADER: INSTALL, FENCE_HEADER: "0"}
    with console_client(registrar, serving, tmp_path, **headers) as client:
        yield client
