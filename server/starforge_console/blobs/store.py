"""Blobs on the storage root, named by the digest of their content: written once, never changed."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from starforge.containers.settings import StorageMark
from starforge.containers.storage import StorageCheck
from starforge.contract.ids import Digest, parse_digest
from starforge.errors import NotFound, Unavailable
from starforge_console.blobs.upload import Encoding, Upload

_BATCH_BYTES: Final = 1 << 20

_P = ParamSpec("_P")
_T = TypeVar("_T")


class StorageNotMounted(Unavailable):
    """What lies at the storage root is not this console's storage."""

    code = "storage_not_mounted"


class StorageRefused(Unavailable):
    """The storage is there and does not take what is written."""

    code = "storage_refused"


class BlobStore:
    """The blobs below `<storage root>/blobs`; any number of processes may use one folder.

    The storage's mark has to hold `storage_id`: below the mount point of a share that is not mounted nothing is
    looked for, and nothing is written.
    """

    def __init__(self, storage_root: Path, max_bytes: int, storage_id: str) -> None:
        self._mounted = StorageCheck(StorageMark(root=storage_root, content=storage_id))
        self._folder = storage_root / "blobs" / "sha256"
        self._incoming = storage_root / "blobs" / "incoming"
        self.max_bytes = max_bytes

    def require_storage(self) -> None:
        """Raises StorageNotMounted unless this console's storage is there. May wait for it."""
        trouble = self._mounted.find_trouble()
        if trouble:
            raise StorageNotMounted(trouble, next_step="mount the share on the console's machine, then send it again")

    def path_of(self, digest: Digest) -> Path:
        """Where the blob lies, or would."""
        value = parse_digest(digest).removeprefix("sha256:")
        return self._folder / value[:2] / value

    def find_size_now(self, digest: Digest) -> int | None:
        """How many bytes the blob has, or None when it is not here. May wait for the disk.

        Raises:
            StorageNotMounted: nobody can tell.

        """
        self.require_storage()
        try:
            return self.path_of(digest).stat().st_size
        except FileNotFoundError:
            return None

    async def find_size(self, digest: Digest) -> int | None:
        """The same without keeping the event loop waiting."""
        return await asyncio.to_thread(self.find_size_now, digest)

    async def read(self, digest: Digest) -> AsyncIterator[bytes]:
        """The blob's content, piece by piece. Raises NotFound."""
        try:
            descriptor = await asyncio.to_thread(os.open, self.path_of(digest), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise NotFound(f"there is no blob {digest}") from None
        try:
            while piece := await asyncio.to_thread(os.read, descriptor, _BATCH_BYTES):
                yield piece
        finally:
            os.close(descriptor)

    async def put(self, digest: Digest, pieces: AsyncIterator[bytes], encoding: Encoding) -> int:
        """Keep the content that `pieces` carry, unless it is here; gives its size in bytes.

        When this returns the blob is on disk under its name. A second upload of one digest, at once or later, is fine.

        Raises:
            BlobRefused: the content has another digest, or its encoding is broken.
            TooLarge: the content is larger than `max_bytes`; no more than that was ever decoded.
            StorageNotMounted: there is nowhere to keep it.
            StorageRefused: its disk is full, or broken; nothing was kept.

        """
        present = await self.find_size(digest)
        if present is not None:
            async for _ in pieces:
                pass  # the sender is in the middle of it: an answer before the end would look like a broken connection
            return present
        upload = await _on_disk(Upload, self._incoming, self.max_bytes, encoding)
        try:
            await _feed(upload, pieces)
            return await _on_disk(self._keep, upload, digest)
        finally:
            await asyncio.to_thread(upload.discard)

    def _keep(self, upload: Upload, digest: Digest) -> int:
        self.require_storage()  # it may have gone while the content came
        return upload.keep_as(digest, self.path_of(digest))


async def _feed(upload: Upload, pieces: AsyncIterator[bytes]) -> None:
    waiting = bytearray()
    async for piece in pieces:
        waiting += piece
        if len(waiting) >= _BATCH_BYTES:
            await _on_disk(upload.feed, bytes(waiting))
            waiting.clear()
    if waiting:
        await _on_disk(upload.feed, bytes(waiting))


async def _on_disk(work: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
    try:
        return await asyncio.to_thread(work, *args, **kwargs)
    except OSError as error:
        raise StorageRefused(
            f"the storage refused the upload: {error.strerror or error}",
            why=f"{error.filename or 'the file of the upload'} could not be written",
            next_step="look at the storage root's space and rights, then send it again",
        ) from error
