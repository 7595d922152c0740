"""A workspace is sent once for each digest, and goes on where a proxy has cut it."""

import itertools
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from e2e.recipes.conftest import make_project
from e2e.support.console import ConsoleProcess, console_process
from e2e.support.projects import git
from e2e.support.relay import Relay
from starforge.client.console import Console
from starforge.client.http import Connection
from starforge.client.upload import send_blob
from starforge.workspace.manifest import load_manifest
from starforge.workspace.pack import pack_manifest

_MIB: Final = 1 << 20


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    folder = tmp_path_factory.mktemp("console")
    with console_process(folder, str(folder / "no-engine.sock")) as process:
        yield process


@pytest.fixture
def relay(console: ConsoleProcess) -> Iterator[Relay]:
    made = Relay(("127.0.0.1", console.port))
    yield made
    made.close()


def test_an_upload_that_a_proxy_cuts_goes_on_where_it_was(
    console: ConsoleProcess, relay: Relay, tmp_path: Path
) -> None:
    root = make_project(tmp_path, {"model.bin": "", "train.py": "print(1)\n"})
    (root / "model.bin").write_bytes(os.urandom(48 * _MIB))
    manifest = load_manifest(root)
    packed = pack_manifest(manifest)
    sent: list[int] = []
    cuts = [20 * _MIB, 34 * _MIB]

    def progress(done: int, _total: int) -> None:
        sent.append(done)
        if cuts and done >= cuts[0]:
            cuts.pop(0)
            relay.cut()
            threading.Timer(0.2, relay.heal).start()

    with Connection(f"http://127.0.0.1:{relay.port}", console.token()) as connection:
        client = Console(connection)
        assert send_blob(client, packed.digest, lambda sink: pack_manifest(manifest, sink).digest, progress)
        assert client.blob(packed.digest).bytes == packed.bytes
        assert not send_blob(client, packed.digest, lambda _: packed.digest, progress)
    again = [after for before, after in itertools.pairwise(sent) if after < before]
    assert cuts == []
    assert len(again) == 2
    assert all(start > 8 * _MIB for start in again), "it began anew"


def test_a_dry_run_says_whether_the_workspace_would_be_sent(console: ConsoleProcess) -> None:
    project = console.projects / "proj"
    console.sf("init", "proj")
    console.sf("new", "probe", "--image", "registry.local/train:1", cwd=project)
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "Add it")
    answer = dry_run(console, project)
    assert answer["would_upload"] is True
    console.sf("submit", "probe", "--profile", "cpu", cwd=project, may_fail=True)
    assert dry_run(console, project)["would_upload"] is False


def dry_run(console: ConsoleProcess, project: Path) -> Any:  # noqa: ANN401 - a JSON answer
    done = console.sf("submit", "probe", "--profile", "cpu", "--dry-run", "--json", cwd=project, may_fail=True)
    return json.loads(done.stdout)
