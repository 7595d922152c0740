"""Sends a blob as zstd, once for each digest."""

import os
import tempfile
from collections.abc import Callable, Iterator
from typing import IO, Final, Protocol

from backports import zstd

from starforge.client.console import Console
from starforge.contract.ids import Digest
from starforge.errors import PackError

_CHUNK_BYTES: Final = 256 << 10
_LEVEL: Final = 3


class Sink(Protocol):
    """Where a blob's plain bytes are written."""

    def write(self, data: bytes, /) -> object:
        """Take all of `data`."""


def send_blob(
    console: Console, digest: Digest, write: Callable[[Sink], Digest], progress: Callable[[int, int], object]
) -> bool:
    """Make sure that the console holds the blob `digest`; gives whether it had to be sent.

    Args:
        console: Where it is sent to.
        digest: The digest of the plain bytes.
        write: Writes the plain bytes and gives their digest; called only when they are needed.
        progress: Called with the bytes sent and the bytes in all; a repeated try begins anew.

    Raises:
        PackError: what was written is no longer what has the digest.

    """
    if console.blob(digest).present:
        return False
    with tempfile.TemporaryFile() as file:
        with zstd.ZstdFile(file, mode="w", level=_LEVEL) as sink:
            written = write(sink)
        if written != digest:
            raise PackError("files changed between packing and sending", next_step="submit again")
        total = file.tell()
        console.upload(digest, lambda: _read(file, total, progress))
    return True


def _read(file: IO[bytes], total: int, progress: Callable[[int, int], object]) -> Iterator[bytes]:
    file.seek(0, os.SEEK_SET)
    sent = 0
    while chunk := file.read(_CHUNK_BYTES):
        yield chunk
        sent += len(chunk)
        progress(sent, total)
