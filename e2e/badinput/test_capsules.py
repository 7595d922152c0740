"""A capsule that root on the host changed between the launch and the start: nothing of it runs."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from e2e.badinput.yard import Yard
from e2e.support.engines import PrivateEngine
from e2e.support.proxy import EngineProxy, engine_proxy

pytestmark = pytest.mark.engine


def _append(name: str) -> Callable[[Path], None]:
    def change(capsule: Path) -> None:
        (capsule / name).chmod(0o644)
        with (capsule / name).open("ab") as file:
            file.write(b"\n")

    return change


def _other_plan(capsule: Path) -> None:
    file = capsule / "capsule.json"
    file.chmod(0o644)
    file.write_bytes(file.read_bytes().replace(b"train.sh", b"other.sh"))


CHANGES: Final[dict[str, Callable[[Path], None]]] = {
    "another plan": _other_plan,
    "another runner": _append("runner.pex"),
    "other sums": _append("SHA256SUMS"),
    "no runner": lambda capsule: (capsule / "runner.pex").unlink(),
    "no sums": lambda capsule: (capsule / "SHA256SUMS").unlink(),
}


@pytest.fixture(scope="module")
def proxy(machine: PrivateEngine, folder: Path) -> Iterator[EngineProxy]:
    with engine_proxy(folder / "p.sock", machine.socket_path) as between:
        yield between


@pytest.fixture(scope="module")
def engine_socket(proxy: EngineProxy) -> str:
    return proxy.socket_path


@pytest.mark.parametrize("what", list(CHANGES))
def test_a_changed_capsule_fails_the_start_in_words(yard: Yard, proxy: EngineProxy, what: str) -> None:
    change = CHANGES[what]
    reached, release = proxy.hold("/start")
    job = yard.begin('echo started > "$FORGE_OUT_DIR/started"')
    try:
        assert reached.wait(30)
        change(yard.run_folder(job) / "capsules" / "1")
    finally:
        release.set()
    detail = yard.probe.wait_end(job)
    assert (detail["job"]["state"], detail["job"]["reason"]) == ("FAILED", "start_failed")
    assert detail["attempts"][0]["exit_code"] == 97
    assert "capsule was changed" in detail["job"]["note"]
    log = yard.probe.log(job)
    assert log.startswith("starforge: ")
    assert "capsule" in log
    assert not (yard.out(job) / "started").exists()
