"""One private engine for the leg, one console for each test."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from e2e.support.console import ConsoleProcess, console_process
from e2e.support.engines import PrivateEngine, find_obstacle, private_engine
from e2e.support.images import host_image
from e2e.support.proxy import EngineProxy, engine_proxy


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


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder whose parents the job's user can pass."""
    for parent in (tmp_path, *tmp_path.parents[:3]):
        parent.chmod(parent.stat().st_mode | 0o055)
    return tmp_path


@pytest.fixture
def console(machine: PrivateEngine, folder: Path) -> Iterator[ConsoleProcess]:
    with console_process(folder, machine.socket_path) as running:
        yield running
    machine.remove_containers()


@pytest.fixture
def proxy(machine: PrivateEngine, folder: Path) -> Iterator[EngineProxy]:
    with engine_proxy(folder / "p.sock", machine.socket_path) as between:
        yield between


@pytest.fixture
def behind_proxy(machine: PrivateEngine, proxy: EngineProxy, folder: Path) -> Iterator[Callable[..., ConsoleProcess]]:
    """Starts a console that reaches the engine through the proxy, with further settings."""
    with ExitStack() as consoles:
        yield lambda **settings: consoles.enter_context(console_process(folder, proxy.socket_path, settings))
    machine.remove_containers()
