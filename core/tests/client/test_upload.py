import io
import random
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


def test_an_upload_that_was_cut_goes_on_where_the_console_has_it(
    console: Console, state: ConsoleState, tmp_path: Path
) -> None:
    content = random.Random(7).randbytes(20 << 20)
    manifest = load_manifest(write_tree(tmp_path, {"model.bin": content}))
    packed = pack_manifest(manifest)
    state.cut_uploads_at = [9 << 20, 13 << 20]
    seen: list[int] = []
    send_blob(console, packed.digest, writer(manifest), lambda done, _total: seen.append(done))
    puts = [one for one in state.seen if one.method == "PUT"]
    offsets = [int(one.headers.get("upload-offset", 0)) for one in puts]
    assert [offset >> 20 for offset in offsets] == [0, 8, 12]  # the last frame that begins before the cut
    assert len(puts[2].body) < len(puts[1].body) < len(puts[0].body)
    assert len(state.blobs[packed.digest]) == packed.bytes
    assert seen[-1] == max(seen)


def test_what_an_earlier_command_has_sent_is_not_sent_again(
    console: Console, state: ConsoleState, tmp_path: Path
) -> None:
    manifest = load_manifest(write_tree(tmp_path, {"model.bin": random.Random(7).randbytes(9 << 20)}))
    tar = io.BytesIO()
    packed = pack_manifest(manifest, tar)
    state.partials[packed.digest] = tar.getvalue()[: 5 << 20]
    send_blob(console, packed.digest, writer(manifest), lambda *_: None)
    (put,) = [one for one in state.seen if one.method == "PUT"]
    assert int(put.headers["upload-offset"]) >> 20 == 4
    assert packed.digest in state.blobs


def test_bytes_that_turn_out_to_be_others_are_sent_anew(console: Console, state: ConsoleState, tmp_path: Path) -> None:
    manifest = load_manifest(write_tree(tmp_path, {"model.bin": random.Random(7).randbytes(9 << 20)}))
    packed = pack_manifest(manifest)
    state.partials[packed.digest] = bytes(5 << 20)
    send_blob(console, packed.digest, writer(manifest), lambda *_: None)
    offsets = [one.headers.get("upload-offset") for one in state.seen if one.method == "PUT"]
    assert (offsets[0] is None, offsets[1]) == (False, None)
    assert packed.digest in state.blobs
