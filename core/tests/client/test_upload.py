from collections.abc import Callable
from pathlib import Path

import pytest

from core.tests.client.server import ConsoleState
from core.tests.workspace.trees import write_tree
from starforge.client.console import Console
from starforge.client.upload import Sink, send_blob
from starforge.contract.ids import Digest
from starforge.errors import PackError
from starforge.workspace.manifest import Manifest, load_manifest
from starforge.workspace.pack import pack_manifest


def writer(manifest: Manifest) -> Callable[[Sink], Digest]:
    return lambda sink: pack_manifest(manifest, sink).digest


def test_a_workspace_is_sent_once_and_arrives_as_the_tar_that_was_packed(
    console: Console, state: ConsoleState, tmp_path: Path
) -> None:
    manifest = load_manifest(write_tree(tmp_path, {"train.py": "x" * 1000}))
    packed = pack_manifest(manifest)
    sent: list[int] = []
    assert send_blob(console, packed.digest, writer(manifest), lambda done, _total: sent.append(done))
    assert len(state.blobs[packed.digest]) == packed.bytes
    assert sent[-1] < packed.bytes
    assert not send_blob(console, packed.digest, writer(manifest), lambda *_: None)
    assert [seen.method for seen in state.seen] == ["GET", "PUT", "GET"]


def test_an_upload_that_was_cut_is_sent_again_from_its_beginning(
    console: Console, state: ConsoleState, tmp_path: Path
) -> None:
    manifest = load_manifest(write_tree(tmp_path, {"train.py": "x" * 1000}))
    packed = pack_manifest(manifest)
    state.failures = [(packed.digest, 0, {}), (packed.digest, 0, {})]
    send_blob(console, packed.digest, writer(manifest), lambda *_: None)
    assert packed.digest in state.blobs


def test_files_that_changed_since_they_were_packed_are_not_sent(
    console: Console, state: ConsoleState, tmp_path: Path
) -> None:
    manifest = load_manifest(write_tree(tmp_path, {"train.py": "x"}))
    packed = pack_manifest(manifest)
    write_tree(tmp_path, {"train.py": "y"})
    with pytest.raises(PackError, match="changed between packing and sending"):
        send_blob(console, packed.digest, writer(manifest), lambda *_: None)
    assert state.blobs == {}
