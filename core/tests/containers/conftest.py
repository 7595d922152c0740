from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from core.tests.containers.builders import make_host, make_settings, memory_folder
from e2e.support.engines import PrivateEngine
from e2e.support.ready import ready_engine
from starforge.containers.host import ContainerHost


@pytest.fixture(scope="session")
def machine() -> Iterator[PrivateEngine]:
    """One engine with the host image for all tests of this process; tests leave it running."""
    with ready_engine() as machine:
        yield machine


@pytest.fixture
def secrets_root() -> Iterator[Path]:
    with memory_folder() as folder:
        yield folder


@pytest.fixture
def open_host(machine: PrivateEngine, tmp_path: Path, secrets_root: Path) -> Iterator[Callable[..., ContainerHost]]:
    """Opens hosts on the shared engine, each as a new process would; whatever they started is removed at the end."""
    hosts: list[ContainerHost] = []

    def open_one(**changes: object) -> ContainerHost:
        host = make_host(machine.engine, make_settings(tmp_path, secrets_root, **changes))
        hosts.append(host)
        return host

    yield open_one
    for host in hosts:
        host.close()
    remove_all(machine)


@pytest.fixture
def host(open_host: Callable[..., ContainerHost]) -> ContainerHost:
    return open_host()


def remove_all(machine: PrivateEngine) -> None:
    for listed in machine.engine.list_containers():
        machine.engine.remove(listed["Id"], force=True)
