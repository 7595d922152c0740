"""Blobs on the storage root, named by the digest of their content: written once, never changed."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from starforge.containers.settings import StorageMark
from starforge.containers.storage import StorageCheck
from starforge.contract.ids import Digest
from starforge.errors import Unavailable
from starforge_console.blobs.places import locate_blob, locate_incoming
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
        self._root = storage_root
        self.max_bytes = max_bytes

    def require_storage(self) -> None:
        """Raises StorageNotMounted unless this console's storage is there. May wait for it."""
        trouble = self._mounted.find_trouble()
        if trouble:
            raise StorageNotMounted(trouble, next_step="mount the share on the console's machine, then send it again")

    def find_size_now(self, digest: Digest) -> int | None:
        """How many bytes the blob has, or None when it is not here. May wait for the disk.

        Raises:
            StorageNotMounted: nobody can tell.

        """
        self.require_storage()
        try:
            return locate_blob(self._root, digest).stat().st_size
        except FileNotFoundError:
            return None

    async def find_size(self, digest: Digest) -> int | None:
        """The same without keeping the event loop waiting."""
        return await asyncio.to_thread(self.find_size_now, digest)

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
        upload = await _on_disk(Upload, locate_incoming(self._root), self.max_bytes, encoding)
        try:
            await _feed(upload, pieces)
            return await _on_disk(self._keep, upload, digest)
        finally:
            await asyncio.to_thread(upload.discard)

    def _keep(self, upload: Upload, digest: Digest) -> int:
        self.require_storage()  # it may have gone while the content came
        return upload.keep_as(digest, locate_blob(self._root, digest))


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
