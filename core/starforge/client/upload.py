"""Sends a blob as zstd, once for each digest; after a cut it goes on where it was."""

import os
import tempfile
from collections.abc import Callable, Iterator
from typing import IO, Final, Protocol

from backports import zstd

from starforge.client.console import Console, Rest
from starforge.contract.ids import Digest
from starforge.errors import InputError, PackError

_CHUNK_BYTES: Final = 256 << 10
_FRAME_BYTES: Final = 4 << 20
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
        progress: Called with the bytes sent and the bytes in all; a repeated try goes on where the console has it.

    Raises:
        PackError: what was written is no longer what has the digest.

    """
    state = console.blob(digest)
    if state.present:
        return False
    with tempfile.TemporaryFile() as file:
        frames = _Frames(file)
        written = write(frames)
        frames.finish()
        if written != digest:
            raise PackError("files changed between packing and sending", next_step="submit again")
        _send(console, digest, frames, (state.received, progress))
    return True


class _Frames:
    """Writes plain bytes as zstd frames that each can be read alone, so that sending can begin at every one."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.starts = [(0, 0)]
        """Where frames begin: in the plain bytes and in the file, ascending."""
        self._plain_bytes = 0
        self._frame = zstd.ZstdFile(file, mode="w", level=_LEVEL)

    def write(self, data: bytes, /) -> int:
        self._frame.write(data)
        self._plain_bytes += len(data)
        if self._plain_bytes - self.starts[-1][0] >= _FRAME_BYTES:
            self._frame.close()
            self.starts.append((self._plain_bytes, self.file.tell()))
            self._frame = zstd.ZstdFile(self.file, mode="w", level=_LEVEL)
        return len(data)

    def finish(self) -> None:
        self._frame.close()

    def find_start(self, received: int) -> tuple[int, int]:
        """The last frame that begins at or before `received`: its place in the plain bytes and in the file."""
        return max(start for start in self.starts if start[0] <= received)


def _send(console: Console, digest: Digest, frames: _Frames, way: tuple[int, Callable[[int, int], object]]) -> None:
    received, progress = way
    total = frames.file.seek(0, os.SEEK_END)
    gone_on = False

    def choose(received: int) -> Rest:
        nonlocal gone_on
        plain, at = frames.find_start(received)
        gone_on = plain > 0
        return Rest(plain, lambda: _read(frames.file, at, total, progress))

    try:
        console.upload(digest, choose, received)
    except InputError:
        if not gone_on:
            raise
        # What the console had was not what was sent. It is gone now: from the beginning then.
        console.upload(digest, lambda _: Rest(0, lambda: _read(frames.file, 0, total, progress)))


def _read(file: IO[bytes], start: int, total: int, progress: Callable[[int, int], object]) -> Iterator[bytes]:
    file.seek(start, os.SEEK_SET)
    sent = start
    while chunk := file.read(_CHUNK_BYTES):
        yield chunk
        sent += len(chunk)
        progress(sent, total)
