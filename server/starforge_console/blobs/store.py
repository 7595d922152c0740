"""Blobs on the storage root, named by the digest of their content: written once, never changed."""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from starforge.containers.settings import StorageMark
from starforge.containers.storage import StorageCheck
from starforge.contract.ids import Digest
from starforge.errors import Unavailable
from starforge_console.blobs.places import PARTIAL, locate_blob, locate_incoming, locate_partial, partial_prefix
from starforge_console.blobs.upload import Encoding, Upload

_BATCH_BYTES: Final = 1 << 20
_PARTIAL_KEPT_S: Final = 86_400.0

_P = ParamSpec("_P")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Start:
    """Where in the plain content an upload begins, and whose it is: one sender's bytes are never gone on by another."""

    sender: str
    offset: int = 0


FROM_THE_BEGINNING: Final = Start("")


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

        Whoever asks may be about to use it: what nothing refers to stays for its whole time from now on.

        Raises:
            StorageNotMounted: nobody can tell.

        """
        self.require_storage()
        try:
            path = locate_blob(self._root, digest)
            size_bytes = path.stat().st_size
            os.utime(path)
        except FileNotFoundError:
            return None
        return size_bytes

    def locate(self, digest: Digest) -> Path:
        """Where the blob lies, if it is here."""
        return locate_blob(self._root, digest)

    async def find_size(self, digest: Digest) -> int | None:
        """The same without keeping the event loop waiting."""
        return await asyncio.to_thread(self.find_size_now, digest)

    async def find_received(self, digest: Digest, sender: str) -> int:
        """How many plain bytes of the blob are here since an upload of `sender` was cut."""
        return await asyncio.to_thread(_find_size, locate_partial(self._root, digest, sender))

    async def put(
        self, digest: Digest, pieces: AsyncIterator[bytes], encoding: Encoding, start: Start = FROM_THE_BEGINNING
    ) -> int:
        """Keep the content that `pieces` carry, unless it is here; gives its size in bytes.

        When this returns the blob is on disk under its name. A second upload of one digest, at once or later, is fine.
        When `pieces` end with an error, what came is set aside for a day: one upload for each sender.

        Raises:
            BlobRefused: the content has another digest, or its encoding is broken.
            OffsetRefused: `start` is where nothing of it is here.
            TooLarge: the content is larger than `max_bytes`; no more than that was ever decoded.
            StorageNotMounted: there is nowhere to keep it.
            StorageRefused: its disk is full, or broken; nothing was kept.

        """
        present = await self.find_size(digest)
        if present is not None:
            async for _ in pieces:
                pass  # the sender is in the middle of it: an answer before the end would look like a broken connection
            return present
        partial, came_whole = locate_partial(self._root, digest, start.sender), False
        upload = await _on_disk(Upload, locate_incoming(self._root), self.max_bytes, encoding)
        try:
            if start.offset:
                await _on_disk(upload.go_on, partial, start.offset)
            await _feed(upload, pieces)
            came_whole = True
            return await _on_disk(self._keep, upload, digest)
        finally:
            waits = bool(start.sender) and not came_whole
            await asyncio.to_thread(self._let_go, upload, partial if waits else None, start.sender)

    def _let_go(self, upload: Upload, partial: Path | None, sender: str) -> None:
        upload.let_go(partial)
        oldest = time.time() - _PARTIAL_KEPT_S
        for waiting in locate_incoming(self._root).glob(f"{PARTIAL}*"):
            is_another = partial is not None and waiting != partial and waiting.name.startswith(partial_prefix(sender))
            with contextlib.suppress(FileNotFoundError):
                if is_another or waiting.stat().st_mtime < oldest:
                    waiting.unlink()

    def _keep(self, upload: Upload, digest: Digest) -> int:
        self.require_storage()  # it may have gone while the content came
        return upload.keep_as(digest, locate_blob(self._root, digest))


def _find_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


async def _feed(upload: Upload, pieces: AsyncIterator[bytes]) -> None:
    waiting = bytearray()
    try:
        async for piece in pieces:
            waiting += piece
            if len(waiting) >= _BATCH_BYTES:
                batch = bytes(waiting)
                waiting.clear()
                await _on_disk(upload.feed, batch)
    finally:  # what came before a cut counts too
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
