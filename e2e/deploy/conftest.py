"""One engine for the folder, the wheels of this release, and for each test a fresh machine under systemd."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.support.clean_root import find_obstacle as find_root_obstacle
from e2e.support.clean_root import find_or_build_root
from e2e.support.deployed import REPOSITORY, DeployedConsole, build_wheels, console_machine
from e2e.support.engines import PrivateEngine, find_obstacle, private_engine
from e2e.support.images import host_image


@pytest.fixture(scope="session")
def clean_root() -> Path:
    obstacle = find_root_obstacle()
    if obstacle is not None:
        pytest.skip(obstacle)
    return find_or_build_root(REPOSITORY / "build" / "roots")


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateEngine]:
    """The engine below the machines."""
    obstacle = find_obstacle()
    if obstacle is not None:
        pytest.skip(obstacle)
    with private_engine(tmp_path_factory.mktemp("host"), "--live-restore") as engine:
        host_image(engine)
        yield engine


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This release's own."""
    return build_wheels(REPOSITORY, tmp_path_factory.mktemp("wheels"))


@pytest.fixture
def deployed(host: PrivateEngine, clean_root: Path, tmp_path: Path) -> Iterator[DeployedConsole]:
    for parent in (tmp_path, *tmp_path.parents[:3]):
        parent.chmod(parent.stat().st_mode | 0o055)  # the job's user has to pass
    with console_machine(host, tmp_path / "m", clean_root) as made:
        yield made
    host.remove_containers()
