"""Ports on the host's network, on a real engine."""

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from core.tests.containers.builders import finish, make_request, wait_for, wait_until
from starforge.containers.host import ContainerHost
from starforge.containers.spec import PORTS_PER_ATTEMPT
from starforge.contract.launch import Network
from starforge.contract.observation import Phase

pytestmark = pytest.mark.engine

TELLS = "echo $FORGE_PORT_BASE >told; until [ -e code ]; do sleep 0.05; done; exit $(cat code)"


def start(host: ContainerHost, folder: Path) -> tuple[int, Callable[[], None]]:
    """The first port that a new attempt is told, and what ends it."""
    request = make_request(folder, TELLS, network=Network.HOST)
    host.launch(request)
    told = Path(request.workdir) / "told"
    wait_until(lambda: told.exists() and told.read_text().endswith("\n"), "the attempt to tell its port")

    def end() -> None:
        finish(request, 0)
        wait_for(host, request.attempt, Phase.EXITED)

    return int(told.read_text()), end


def test_attempts_that_live_have_blocks_apart_and_none_in_which_somebody_listens(
    open_host: Callable[..., ContainerHost], tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        base = stranger.getsockname()[1] - 10
        host = open_host(port_base=base)
        first, end_first = start(host, tmp_path)
        second, _ = start(host, tmp_path)
        assert base < first < second
        assert [(port - base) % PORTS_PER_ATTEMPT for port in (first, second)] == [0, 0]
        end_first()
        assert start(host, tmp_path)[0] == first


def test_attempts_that_are_launched_at_the_same_moment_have_blocks_apart(
    open_host: Callable[..., ContainerHost], tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        base = stranger.getsockname()[1] + 1
    # Two processes of one machine, each with a host of its own: the lock alone keeps them apart.
    hosts = [open_host(port_base=base) for _ in range(2)]
    with ThreadPoolExecutor(len(hosts)) as pool:
        ports = [port for port, _ in pool.map(lambda host: start(host, tmp_path), hosts)]
    assert abs(ports[0] - ports[1]) >= PORTS_PER_ATTEMPT
