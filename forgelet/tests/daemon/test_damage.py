"""A state directory that is damaged, before the daemon starts or under its feet: it says so, and can be mended."""

from collections.abc import Callable
from pathlib import Path

import pytest

from core.tests.containers.builders import wait_until
from forgelet.tests.support.daemons import Daemon, wait_for_epoch
from forgelet.tests.support.registrar import JOIN_TOKEN, Registrar
from starforge_forgelet.state import NodeState

pytestmark = pytest.mark.engine

FILES = ("identity.json", "node.pem", "epoch.json", "fence.json")
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "emptied": lambda _old: b"",
    "cut": lambda old: old[: len(old) // 2],
    "garbled": lambda old: b"\xff" + old,
}


@pytest.fixture
def damaged(daemon: Daemon, registrar: Registrar, request: pytest.FixtureRequest) -> Path:
    """The machine has joined and served, then one file of it was damaged."""
    name, damage = (str(part) for part in request.param)
    daemon.join(registrar.url, "gpu")
    daemon.start()
    wait_for_epoch(registrar, 1)
    assert daemon.terminate() == 0
    file = daemon.state_dir / name
    if not file.exists():
        file.write_bytes(b'{"number":0}')
    file.write_bytes(DAMAGES[damage](file.read_bytes()))
    return file


each_damage = pytest.mark.parametrize(
    "damaged", [(name, damage) for name in FILES for damage in DAMAGES], ids="-".join, indirect=True
)


@each_damage
def test_a_damaged_file_is_named_without_a_traceback(damaged: Path, daemon: Daemon) -> None:
    daemon.log.write_bytes(b"")
    daemon.start()
    wait_until(lambda: str(damaged) in daemon.log.read_text(), "the daemon to name the file", 20)
    assert "Traceback" not in daemon.log.read_text()


@each_damage
def test_joining_again_mends_a_damaged_file(damaged: Path, daemon: Daemon, registrar: Registrar) -> None:
    daemon.join(registrar.url, "gpu")
    daemon.start()
    wait_for_epoch(registrar, 2)
    assert damaged.read_bytes()


def test_a_machine_that_cannot_keep_its_key_asks_no_console(daemon: Daemon, registrar: Registrar) -> None:
    daemon.before = ("prlimit", "--fsize=0")
    words = ("join", "--server", registrar.url, "--fleet", "gpu", "--advertise", "127.0.0.1:9")
    done = daemon.run(*words, FORGE_JOIN_TOKEN=JOIN_TOKEN)
    assert (done.returncode, "cannot be written" in done.stderr) == (1, True), done.stderr
    assert registrar.joins == []


def test_of_two_joins_at_once_one_is_refused(daemon: Daemon, registrar: Registrar) -> None:
    daemon.state_dir.mkdir(mode=0o700)
    with NodeState(daemon.state_dir).hold():
        words = ("join", "--server", registrar.url, "--fleet", "gpu", "--advertise", "127.0.0.1:9")
        done = daemon.run(*words, FORGE_JOIN_TOKEN=JOIN_TOKEN)
    assert (done.returncode, "another 'forgelet join'" in done.stderr) == (1, True), done.stderr
    assert registrar.joins == []
    daemon.join(registrar.url, "gpu")


@pytest.mark.parametrize("name", ["node.pem", "epoch.json", "fence.json"])
def test_what_installs_is_told_of_a_damaged_file(daemon: Daemon, registrar: Registrar, name: str) -> None:
    daemon.join(registrar.url, "gpu")
    assert daemon.run("require", "--console", registrar.url).returncode == 0
    file = daemon.state_dir / name
    file.write_bytes(file.read_bytes()[:-30])
    done = daemon.run("require", "--console", registrar.url)
    assert (done.returncode != 0, str(file) in done.stderr) == (True, True), done.stderr


def test_a_daemon_whose_folder_vanishes_says_so_and_is_heard_again_once_it_is_back(
    serving: Daemon, registrar: Registrar
) -> None:
    folder = serving.state_dir / "host" / "failed-launches"
    folder.rmdir()
    wait_until(lambda: str(folder) in serving.log.read_text(), "a word of the folder", 20)
    folder.mkdir(mode=0o700)
    heard = len(registrar.reports)
    wait_until(lambda: len(registrar.reports) > heard, "a heartbeat", 20)
