"""One private engine for the leg, one console with a job that runs for each module that asks for it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.badinput.yard import Yard, make_yard
from e2e.support.console import ConsoleProcess, console_process
from e2e.support.engines import PrivateEngine, find_obstacle, private_engine
from e2e.support.images import host_image


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateEngine]:
    obstacle = find_obstacle()
    if obstacle is not None:
        pytest.skip(obstacle)
    with private_engine(tmp_path_factory.mktemp("engine")) as engine:
        yield engine


@pytest.fixture(scope="session")
def image(machine: PrivateEngine) -> str:
    return host_image(machine)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose parents the job's user can pass."""
    made = tmp_path_factory.mktemp("security")
    for parent in (made, *made.parents[:3]):
        parent.chmod(parent.stat().st_mode | 0o055)
    return made


@pytest.fixture(scope="module")
def console(machine: PrivateEngine, folder: Path) -> Iterator[ConsoleProcess]:
    with console_process(folder, machine.socket_path, {"FORGE_WEBHOOK_ALLOW": "127.0.0.0/8"}) as running:
        running.sf("login", "--server", running.url, typed=running.token("--scopes", "read,submit,admin"))
        yield running
    machine.remove_containers()


@pytest.fixture(scope="module")
def yard(machine: PrivateEngine, console: ConsoleProcess, image: str) -> Yard:
    return make_yard(machine, console, image)
