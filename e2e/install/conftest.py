"""One engine for the folder; for each module a console that serves forgelet, for each test a fresh machine."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.support.clean_machine import CleanMachine, clean_machine
from e2e.support.clean_root import find_obstacle as find_root_obstacle
from e2e.support.clean_root import find_or_build_root, load_python
from e2e.support.engines import PrivateEngine, find_obstacle, private_engine
from e2e.support.images import host_image
from e2e.support.installing import Site, build_site

_ROOTS = Path(__file__).parents[2] / "build" / "roots"


@pytest.fixture(scope="session")
def clean_root() -> Path:
    obstacle = find_root_obstacle()
    if obstacle is not None:
        pytest.skip(obstacle)
    return find_or_build_root(_ROOTS)


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateEngine]:
    """The engine below the machines."""
    obstacle = find_obstacle()
    if obstacle is not None:
        pytest.skip(obstacle)
    with private_engine(tmp_path_factory.mktemp("host"), "--live-restore") as engine:
        host_image(engine)
        yield engine


@pytest.fixture(scope="module")
def console_site(host: PrivateEngine, clean_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    for parent in (folder, *folder.parents[:3]):
        parent.chmod(parent.stat().st_mode | 0o055)  # the job's user has to pass
    made = build_site(folder, host, load_python(clean_root))
    try:
        yield made
    finally:
        made.console.close()


@pytest.fixture
def site(console_site: Site, tmp_path: Path) -> Site:
    """The console with a fleet of the test's own, on which no machine of another test is."""
    return console_site.with_fleet(f"f{hashlib.sha256(str(tmp_path).encode()).hexdigest()[:8]}")


@pytest.fixture
def machine(host: PrivateEngine, site: Site, clean_root: Path, tmp_path: Path) -> Iterator[CleanMachine]:
    """A fresh machine without systemd."""
    with clean_machine(host, tmp_path / "machine", clean_root, [site.console.storage]) as made:
        supply(made)
        yield made
    host.remove_containers()


@pytest.fixture
def systemd_machine(host: PrivateEngine, site: Site, clean_root: Path, tmp_path: Path) -> Iterator[CleanMachine]:
    """The same, under systemd."""
    with clean_machine(host, tmp_path / "machine", clean_root, [site.console.storage], systemd=True) as made:
        supply(made)
        yield made
    host.remove_containers()


def supply(machine: CleanMachine) -> None:
    """What an administrator of a machine without GPUs sets before the line."""
    machine.settings |= {
        "FORGE_GPU_RUNTIME": "none",
        "FORGE_LOCAL_GPU_COUNT": "2",
        "FORGE_LOCAL_GPU_NAME": "NVIDIA H200",
        "FORGE_DOCKER_SOCKET": machine.engine.socket_path,
    }
