import asyncio
import os
import stat
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest
from backports.zstd import ZstdCompressor, compress

from starforge.containers.storage import MARK_FILE
from starforge.contract.canonical import digest_bytes
from starforge_console.blobs.places import locate_blob, locate_partial
from starforge_console.blobs.store import BlobStore, Start, StorageNotMounted, StorageRefused
from starforge_console.blobs.upload import Encoding
from starforge_console.errors import BlobRefused, OffsetRefused, TooLarge

MIB = 1 << 20
LIMIT = 8 * MIB
STORAGE_ID = "0123456789abcdef"


def open_store(root: Path, max_bytes: int = LIMIT) -> BlobStore:
    (root / MARK_FILE).write_text(STORAGE_ID)
    return BlobStore(root, max_bytes, STORAGE_ID)


async def in_pieces(content: bytes, size: int = 4096) -> AsyncIterator[bytes]:
    for start in range(0, len(content), size):
        yield content[start : start + size]


def put(store: BlobStore, content: bytes, *, sent: bytes | None = None, encoding: Encoding = Encoding.IDENTITY) -> int:
    pieces = in_pieces(content if sent is None else sent)
    return asyncio.run(store.put(digest_bytes(content), pieces, encoding))


def files_below(root: Path) -> Iterable[Path]:
    return [path for path in root.rglob("*") if path.is_file() and path.name != MARK_FILE]


@pytest.mark.parametrize("content", [b"", b"x", os.urandom(3 * MIB + 17)], ids=["empty", "byte", "large"])
@pytest.mark.parametrize("encoding", list(Encoding))
def test_what_was_put_is_read_back(tmp_path: Path, content: bytes, encoding: Encoding) -> None:
    store = open_store(tmp_path)
    sent = compress(content) if encoding is Encoding.ZSTD else content
    assert put(store, content, sent=sent, encoding=encoding) == len(content)

    assert locate_blob(tmp_path, digest_bytes(content)).read_bytes() == content
    assert asyncio.run(store.find_size(digest_bytes(content))) == len(content)


def test_a_blob_lies_under_its_digest_and_is_read_only(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put(store, b"content")
    name = digest_bytes(b"content").removeprefix("sha256:")
    path = tmp_path / "blobs" / "sha256" / name[:2] / name
    assert path.read_bytes() == b"content"
    assert stat.S_IMODE(path.stat().st_mode) == 0o444


def test_content_with_another_digest_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    with pytest.raises(BlobRefused, match="is sha256:"):
        put(store, b"content", sent=b"forgery")
    assert files_below(tmp_path) == []


def test_several_frames_are_one_content(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    assert put(store, b"onetwo", sent=compress(b"one") + compress(b"two"), encoding=Encoding.ZSTD) == 6


@pytest.mark.parametrize(
    "sent", [b"no zstd at all", compress(b"content")[:-3], compress(b"content") + b"rest"], ids=["none", "cut", "rest"]
)
def test_broken_zstd_is_refused(tmp_path: Path, sent: bytes) -> None:
    store = open_store(tmp_path)
    with pytest.raises(BlobRefused):
        put(store, b"content", sent=sent, encoding=Encoding.ZSTD)
    assert files_below(tmp_path) == []


def test_a_small_body_that_unpacks_to_much_is_stopped_at_the_bound(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    packer = ZstdCompressor()
    bomb = b"".join(packer.compress(bytes(MIB)) for _ in range(512)) + packer.flush()
    assert len(bomb) < MIB
    largest = 0

    async def watched() -> AsyncIterator[bytes]:
        nonlocal largest
        async for piece in in_pieces(bomb):
            yield piece
            largest = max(largest, *(path.stat().st_size for path in files_below(tmp_path)), 0)

    with pytest.raises(TooLarge):
        asyncio.run(store.put(digest_bytes(b"never"), watched(), Encoding.ZSTD))
    assert largest <= LIMIT
    assert files_below(tmp_path) == []


def test_more_than_the_bound_is_refused_without_compression_too(tmp_path: Path) -> None:
    with pytest.raises(TooLarge, match="FORGE_WORKSPACE_MAX_BYTES"):
        put(open_store(tmp_path, 10), b"eleven bytes")


def test_a_second_upload_changes_nothing(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put(store, b"content")
    before = locate_blob(tmp_path, digest_bytes(b"content")).stat()
    assert put(store, b"content") == 7
    after = locate_blob(tmp_path, digest_bytes(b"content")).stat()
    assert (before.st_ino, before.st_size) == (after.st_ino, after.st_size)


def test_a_blob_that_is_asked_for_counts_as_used_now(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put(store, b"content")
    path = locate_blob(tmp_path, digest_bytes(b"content"))
    os.utime(path, (1, 1))
    assert asyncio.run(store.find_size(digest_bytes(b"content"))) == 7
    assert path.stat().st_mtime > 1


def test_many_uploads_of_one_digest_at_once_all_succeed(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    content = os.urandom(2 * MIB)

    async def put_all() -> list[int]:
        sends = [store.put(digest_bytes(content), in_pieces(content), Encoding.IDENTITY) for _ in range(8)]
        return list(await asyncio.gather(*sends))

    assert asyncio.run(put_all()) == [len(content)] * 8
    assert [path.read_bytes() for path in files_below(tmp_path)] == [content]


def test_an_upload_that_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    store = open_store(tmp_path)

    async def broken() -> AsyncIterator[bytes]:
        yield bytes(2 * MIB)
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        asyncio.run(store.put(digest_bytes(b"x"), broken(), Encoding.IDENTITY))
    assert files_below(tmp_path) == []


def test_a_storage_that_does_not_take_the_bytes_is_named_as_that(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / "incoming").write_text("no folder")
    with pytest.raises(StorageRefused, match="the storage refused the upload: File exists") as refusal:
        put(store, b"content")
    assert str(tmp_path / "blobs" / "incoming") in refusal.value.why


def test_a_blob_that_is_not_here_has_no_size(tmp_path: Path) -> None:
    assert asyncio.run(open_store(tmp_path).find_size(digest_bytes(b"missing"))) is None


@pytest.mark.parametrize("mark", [None, "fedcba9876543210"], ids=["nothing is mounted", "another share is"])
def test_nothing_is_looked_for_or_written_where_the_storage_is_not_mounted(tmp_path: Path, mark: str | None) -> None:
    store = open_store(tmp_path)
    (tmp_path / MARK_FILE).unlink()
    if mark is not None:
        (tmp_path / MARK_FILE).write_text(mark)
    with pytest.raises(StorageNotMounted, match="storage not mounted"):
        put(store, b"content")
    with pytest.raises(StorageNotMounted):
        asyncio.run(store.find_size(digest_bytes(b"content")))
    assert not (tmp_path / "blobs").exists()


def test_a_share_that_goes_while_content_comes_keeps_no_name(tmp_path: Path) -> None:
    store = open_store(tmp_path)

    async def pieces() -> AsyncIterator[bytes]:
        yield b"con"
        (tmp_path / MARK_FILE).unlink()
        yield b"tent"

    with pytest.raises(StorageNotMounted):
        asyncio.run(store.put(digest_bytes(b"content"), pieces(), Encoding.IDENTITY))
    assert list(files_below(tmp_path)) == []


class Cut(Exception):
    """The sender's connection ends."""


async def cut_after(content: bytes) -> AsyncIterator[bytes]:
    async for piece in in_pieces(content):
        yield piece
    raise Cut


def put_and_cut(
    store: BlobStore, content: bytes, sent: bytes, start: Start, encoding: Encoding = Encoding.ZSTD
) -> None:
    with pytest.raises(Cut):
        asyncio.run(store.put(digest_bytes(content), cut_after(sent), encoding, start))


def put_from(store: BlobStore, content: bytes, sent: bytes, start: Start) -> int:
    return asyncio.run(store.put(digest_bytes(content), in_pieces(sent), Encoding.ZSTD, start))


def test_an_upload_goes_on_where_it_was_cut(tmp_path: Path) -> None:
    store, content = open_store(tmp_path), os.urandom(3 * MIB)
    put_and_cut(store, content, compress(content[: 2 * MIB]), Start("ann"))
    assert asyncio.run(store.find_received(digest_bytes(content), "ann")) == 2 * MIB
    assert asyncio.run(store.find_size(digest_bytes(content))) is None
    assert put_from(store, content, compress(content[MIB:]), Start("ann", MIB)) == len(content)
    assert locate_blob(tmp_path, digest_bytes(content)).read_bytes() == content
    assert asyncio.run(store.find_received(digest_bytes(content), "ann")) == 0
    assert len(list(files_below(tmp_path))) == 1


def test_nobody_goes_on_with_what_another_has_sent(tmp_path: Path) -> None:
    store, content = open_store(tmp_path), os.urandom(3 * MIB)
    put_and_cut(store, content, compress(content[: 2 * MIB]), Start("ann"))
    assert asyncio.run(store.find_received(digest_bytes(content), "bob")) == 0
    with pytest.raises(OffsetRefused):
        put_from(store, content, compress(content[MIB:]), Start("bob", MIB))
    assert asyncio.run(store.find_received(digest_bytes(content), "ann")) == 2 * MIB


def test_one_cut_upload_of_each_sender_is_kept(tmp_path: Path) -> None:
    store, first, second = open_store(tmp_path), os.urandom(2 * MIB), os.urandom(2 * MIB)
    for content in (first, second):
        put_and_cut(store, content, compress(content[:MIB]), Start("ann"))
    put_and_cut(store, first, compress(first[:MIB]), Start("bob"))
    assert asyncio.run(store.find_received(digest_bytes(first), "ann")) == 0
    assert asyncio.run(store.find_received(digest_bytes(second), "ann")) == MIB
    assert asyncio.run(store.find_received(digest_bytes(first), "bob")) == MIB


def test_a_cut_upload_is_kept_for_a_day(tmp_path: Path) -> None:
    store, content = open_store(tmp_path), os.urandom(2 * MIB)
    put_and_cut(store, content, compress(content[:MIB]), Start("ann"))
    waiting = locate_partial(tmp_path, digest_bytes(content), "ann")
    os.utime(waiting, (1, 1))
    put(store, b"something else")
    assert not waiting.exists()


def test_what_was_refused_is_not_gone_on_with(tmp_path: Path) -> None:
    store, content = open_store(tmp_path), os.urandom(2 * MIB)
    put_and_cut(store, content, compress(bytes(MIB)), Start("ann"))
    with pytest.raises(BlobRefused, match="is sha256:"):
        put_from(store, content, compress(content[MIB:]), Start("ann", MIB))
    assert files_below(tmp_path) == []
