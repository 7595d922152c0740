"""A machine that never joined, let in by the token that its console's settings name."""

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from core.tests.containers.builders import make_request, wait_until
from forgelet.tests.support.daemons import Daemon
from forgelet.tests.support.registrar import Registrar
from starforge.contract.wire import (
    FENCE_HEADER,
    HEALTH_PATH,
    INSTALL_HEADER,
    LAUNCH_PATH,
    STORAGE_HEADER,
    NodeReport,
    decode,
    decode_error,
    encode,
)
from starforge.errors import NodeFault

pytestmark = pytest.mark.engine

OURS = {INSTALL_HEADER: "lab", STORAGE_HEADER: "storage-1", FENCE_HEADER: "0", "authorization": "Bearer shared-one"}


@pytest.fixture
def legacy(daemon: Daemon, registrar: Registrar) -> Daemon:
    daemon.extra = {"FORGE_NODE_TOKEN": "shared-one", "FORGE_STORAGE_ROOT": registrar.storage_root}
    daemon.start()
    return daemon


@pytest.fixture
def console(legacy: Daemon) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=f"http://127.0.0.1:{legacy.port}", headers=OURS, trust_env=False) as client:
        wait_until(lambda: _answers(client), "the daemon listens")
        yield client


def test_a_job_starts_on_it(console: httpx2.Client, tmp_path: Path) -> None:
    assert console.post(LAUNCH_PATH, content=encode(make_request(tmp_path))).status_code == 200
    report = decode(console.get(HEALTH_PATH).content, NodeReport)
    assert (report.install, len(report.attempts)) == ("lab", 1)


@pytest.mark.parametrize("shown", ["Bearer another", "Bearer", "", "Bearer shared-one-and-more"])
def test_another_token_lets_nobody_in(console: httpx2.Client, shown: str) -> None:
    assert console.get(HEALTH_PATH, headers={"authorization": shown}).status_code == 401


def test_it_stays_with_the_console_that_called_first(console: httpx2.Client, legacy: Daemon) -> None:
    assert console.get(HEALTH_PATH).status_code == 200
    assert console.get(HEALTH_PATH, headers={INSTALL_HEADER: "other"}).status_code == 404
    legacy.kill()
    legacy.start()
    wait_until(lambda: _answers(console), "the daemon listens again")
    assert console.get(HEALTH_PATH, headers={INSTALL_HEADER: "other"}).status_code == 404
    assert console.get(HEALTH_PATH).status_code == 200


def test_storage_of_another_console_is_no_place_to_start(legacy: Daemon, registrar: Registrar, tmp_path: Path) -> None:
    headers = OURS | {STORAGE_HEADER: "storage-2"}
    with httpx2.Client(base_url=f"http://127.0.0.1:{legacy.port}", headers=headers, trust_env=False) as console:
        wait_until(lambda: _answers(console), "the daemon listens")
        refused = console.post(LAUNCH_PATH, content=encode(make_request(tmp_path)))
    assert isinstance(decode_error(refused.content), NodeFault)
    assert registrar.storage_root in str(decode_error(refused.content))


def test_without_a_storage_root_it_says_what_is_missing(daemon: Daemon) -> None:
    done = daemon.run("serve", FORGE_NODE_TOKEN="shared-one")  # noqa: S106 - made up
    assert done.returncode == 2
    assert "FORGE_STORAGE_ROOT is not set" in done.stderr


def test_joining_ends_it(legacy: Daemon, console: httpx2.Client, registrar: Registrar) -> None:
    assert console.get(HEALTH_PATH).status_code == 200
    legacy.join(registrar.url, "gpu")
    wait_until(lambda: bool(registrar.reports), "it sends heartbeats")
    assert not _answers(console)


def _answers(client: httpx2.Client) -> bool:
    try:
        client.get("/")
    except httpx2.TransportError:
        return False
    return True
