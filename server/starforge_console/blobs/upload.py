"""One upload: decoded within a bound, hashed while it is written, and given its name only when the digest is right."""

import contextlib
import hashlib
import os
import tempfile
from enum import StrEnum
from pathlib import Path
from typing import Final

from backports.zstd import DecompressionParameter, ZstdDecompressor, ZstdError

from starforge.contract.ids import Digest
from starforge.durable import sync_folder
from starforge_console.errors import BlobRefused, OffsetRefused, TooLarge

_PIECE_BYTES: Final = 1 << 20
_WINDOW_LOG: Final = 27
"""The largest window (128 MiB) that a sender may make the decoder keep."""
_READ_ONLY: Final = 0o444


class Encoding(StrEnum):
    """How the bytes travel."""

    IDENTITY = "identity"
    ZSTD = "zstd"


class Upload:
    """Content on its way to a blob, in a file that has no name yet. Every method may wait for the disk.

    What came before a cut can be set aside, and another upload goes on there.
    """

    def __init__(self, folder: Path, max_bytes: int, encoding: Encoding) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._descriptor, name = tempfile.mkstemp(prefix="upload-", dir=folder)
        self._path = Path(name)
        self._max_bytes = max_bytes
        self._hash = hashlib.sha256()
        self._bytes = 0
        self._decoder = _new_decoder() if encoding is Encoding.ZSTD else None
        self._between_frames = True
        self._refused = False

    def go_on(self, partial: Path, offset: int) -> None:
        """Take the first `offset` bytes of `partial`, which is then this upload's own.

        Raises:
            OffsetRefused: there are not so many; what there is stays.

        """
        if not _claim(partial, offset, self._path):
            raise OffsetRefused(
                f"there are no {offset} bytes of this upload to go on from", next_step="send it from the beginning"
            )
        os.close(self._descriptor)
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        os.ftruncate(self._descriptor, offset)
        while self._bytes < offset and (piece := os.read(self._descriptor, _PIECE_BYTES)):
            self._hash.update(piece)
            self._bytes += len(piece)

    def feed(self, piece: bytes) -> None:
        """The next bytes as they travelled."""
        self._refused = True  # unless all of it is taken
        if self._decoder is None:
            self._write(piece)
        else:
            self._decode(piece)
        self._refused = False

    def keep_as(self, digest: Digest, path: Path) -> int:
        """Check the digest and give the content its name; gives its size in bytes."""
        if not self._between_frames:
            raise BlobRefused(f"the upload of {digest} ends in the middle of a zstd frame", next_step="send it again")
        found = f"sha256:{self._hash.hexdigest()}"
        if found != digest:
            raise BlobRefused(
                f"the content of {digest} is {found}",
                why=f"{self._bytes} bytes were received",
                next_step="send the content that the digest names",
            )
        os.fchmod(self._descriptor, _READ_ONLY)
        os.fsync(self._descriptor)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path.replace(path)
        sync_folder(path.parent)
        return self._bytes

    def let_go(self, partial: Path | None) -> None:
        """Let go of the file. Content that was cut waits as `partial` (None: it is removed), what was refused not."""
        os.close(self._descriptor)
        with contextlib.suppress(FileNotFoundError):
            if partial is None or self._refused or not self._bytes:
                self._path.unlink()
            else:
                self._path.replace(partial)

    def _decode(self, piece: bytes) -> None:
        while piece or (self._decoder is not None and not self._decoder.needs_input):
            if self._decoder is None or self._decoder.eof:
                self._decoder = _new_decoder()
            self._between_frames = False
            try:
                self._write(self._decoder.decompress(piece, _PIECE_BYTES))
            except ZstdError as error:
                raise BlobRefused("the body is no zstd", why=str(error), next_step="send it again") from None
            piece = b""
            if self._decoder.eof:
                self._between_frames = True
                piece = self._decoder.unused_data
                if not piece:
                    return

    def _write(self, content: bytes) -> None:
        self._bytes += len(content)
        if self._bytes > self._max_bytes:
            raise TooLarge(
                f"the workspace is larger than {self._max_bytes} bytes",
                why="FORGE_WORKSPACE_MAX_BYTES of the console",
                next_step="leave large files out with .sfignore, or ask an administrator",
            )
        self._hash.update(content)
        view = memoryview(content)
        while view:
            view = view[os.write(self._descriptor, view) :]


def _claim(partial: Path, least_bytes: int, path: Path) -> bool:
    """Let `partial` be `path` from now on, where it has so many bytes; of two at once one has it."""
    try:
        if partial.stat().st_size < least_bytes:
            return False
        partial.replace(path)
    except FileNotFoundError:
        return False
    return True


def _new_decoder() -> ZstdDecompressor:
    return ZstdDecompressor(options={DecompressionParameter.window_log_max: _WINDOW_LOG})
