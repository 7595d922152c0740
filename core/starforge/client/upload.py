"""Sends a packed workspace as zstd, once for each digest."""

import os
import tempfile
from collections.abc import Callable, Iterator
from typing import IO, Final

from backports import zstd

from starforge.client.console import Console
from starforge.contract.ids import Digest
from starforge.errors import PackError
from starforge.workspace.manifest import Manifest
from starforge.workspace.pack import Packed, pack_manifest

_CHUNK_BYTES: Final = 256 << 10
_LEVEL: Final = 3


def send_workspace(
    console: Console, manifest: Manifest, packed: Packed, progress: Callable[[int, int], object]
) -> bool:
    """Make sure that the console holds the packed workspace; gives whether it had to be sent.

    `progress` is called with the bytes sent and the bytes in all; a repeated try begins anew.

    Raises:
        PackError: the files are no longer those that were packed.

    """
    if console.blob(packed.digest).present:
        return False
    with tempfile.TemporaryFile() as file:
        with zstd.ZstdFile(file, mode="w", level=_LEVEL) as sink:
            again = pack_manifest(manifest, sink)
        _check_same(packed.digest, again.digest)
        total = file.tell()
        console.upload(packed.digest, lambda: _read(file, total, progress))
    return True


def _check_same(first: Digest, second: Digest) -> None:
    if first != second:
        raise PackError("files changed between packing and sending", next_step="submit again")


def _read(file: IO[bytes], total: int, progress: Callable[[int, int], object]) -> Iterator[bytes]:
    file.seek(0, os.SEEK_SET)
    sent = 0
    while chunk := file.read(_CHUNK_BYTES):
        yield chunk
        sent += len(chunk)
        progress(sent, total)
