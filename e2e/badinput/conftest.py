"""One private engine for the leg, one console for each module, and a look at the end of each test at what stayed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from e2e.badinput.yard import Yard, make_yard
from e2e.support.console import console_process, wait_for
from e2e.support.disks import small_disk
from e2e.support.engines import PrivateEngine, find_obstacle, private_engine
from e2e.support.images import host_image

_DISK_BYTES: Final = 48 << 20


@pytest.fixture(scope="session")
def disk() -> Iterator[Path]:
    """A small disk that console and machine see at one place."""
    obstacle = find_obstacle()
    if obstacle is not None:
        pytest.skip(obstacle)
    with small_disk(_DISK_BYTES) as place:
        yield place


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory, disk: Path) -> Iterator[PrivateEngine]:
    del disk  # a machine sees what was mounted before it was made
    with private_engine(tmp_path_factory.mktemp("engine")) as engine:
        yield engine


@pytest.fixture(scope="session")
def image(machine: PrivateEngine) -> str:
    return host_image(machine)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose parents the jobs' user can pass."""
    made = tmp_path_factory.mktemp("console")
    for parent in (made, *made.parents[:2]):
        parent.chmod(parent.stat().st_mode | 0o055)
    return made


@pytest.fixture(scope="module")
def settings() -> dict[str, str]:
    """Settings of the module's console; a module may have its own."""
    return {}


@pytest.fixture(scope="module")
def engine_socket(machine: PrivateEngine) -> str:
    """Where the module's console finds the engine; a module may put something between."""
    return machine.socket_path


@pytest.fixture(scope="module")
def shared_yard(
    machine: PrivateEngine, image: str, folder: Path, settings: dict[str, str], engine_socket: str
) -> Iterator[Yard]:
    with console_process(folder, engine_socket, settings) as console:
        yard = make_yard(machine, console, image)
        yield yard
        yard.check_nothing_is_held()


@pytest.fixture
def yard(shared_yard: Yard) -> Iterator[Yard]:
    """The module's console; after the test nothing may be held, and a job that takes everything must run."""
    yield shared_yard
    try:
        shared_yard.check_nothing_is_held()
    finally:
        shared_yard.end_all()


@pytest.fixture
def unharmed(shared_yard: Yard) -> Iterator[Yard]:
    """The same for tests that submit nothing: afterwards there are the jobs of before, and no container."""
    before = shared_yard.list_jobs()
    yield shared_yard
    assert shared_yard.list_jobs() == before
    wait_for(lambda: not shared_yard.machine.engine.list_containers("forge.job"), "every container to be gone", 20)
