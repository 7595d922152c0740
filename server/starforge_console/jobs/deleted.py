"""Removes the folders of deleted jobs: put aside in an instant, emptied afterwards, however much lies in them.

A folder that is put aside belongs to no job any more. What is left of it when the console is killed is found again by
its place, and nothing else needs to be remembered.
"""

import asyncio
import secrets
import stat
import threading
from pathlib import Path
from typing import Final

import structlog

from starforge.contract.ids import JobId
from starforge.errors import StarForgeError
from starforge_console.assembly.layout import StorageLayout
from starforge_console.assembly.removal import RemovalCut, remove_tree
from starforge_console.blobs.store import BlobStore

IDLE_S: Final = 300.0
AGAIN_S: Final = 60.0
"""When a folder that cannot be removed is tried again."""

_log = structlog.get_logger("deletions")


def put_aside(storage: StorageLayout, job: JobId) -> None:
    """Let the job's folder be one that nobody refers to, all of it or nothing; fine where there is none.

    Raises:
        OSError: it cannot be moved, or what lies there is no folder.

    """
    folder = storage.run(job)
    try:
        if not stat.S_ISDIR(folder.lstat().st_mode):
            raise NotADirectoryError(f"{folder} is no folder")
        storage.deleted.mkdir(exist_ok=True)
        folder.rename(storage.deleted / f"{job}-{secrets.token_hex(8)}")
    except FileNotFoundError:
        return


class DeletedRuns:
    """Empties what was put aside, one folder after the other."""

    def __init__(self, storage: StorageLayout, blobs: BlobStore) -> None:
        self._storage = storage
        self._blobs = blobs
        self._closing = threading.Event()

    async def run_once(self) -> float:
        """Remove every folder that was put aside; gives the seconds until it is worth while to look again."""
        try:
            left = await asyncio.to_thread(self._remove_all)
        except StarForgeError as error:
            _log.warning("folders of deleted jobs are not removed now", error=str(error))
            return AGAIN_S
        return AGAIN_S if left else IDLE_S

    def close(self) -> None:
        """Let a removal that is under way stop where it is; the next process goes on."""
        self._closing.set()

    def _remove_all(self) -> int:
        """How many could not be removed."""
        self._blobs.require_storage()
        left = 0
        for folder in _list_folders(self._storage.deleted):
            try:
                remove_tree(folder, is_wanted=lambda: not self._closing.is_set())
            except RemovalCut:
                return left
            except FileNotFoundError:
                continue
            except OSError as error:
                left += 1
                _log.error(
                    "the folder of a deleted job cannot be removed",
                    folder=str(folder),
                    why=str(error),
                    next_step="mend that, or remove the folder by hand: no job refers to it",
                )
        return left


def _list_folders(deleted: Path) -> list[Path]:
    try:
        return sorted(deleted.iterdir())
    except FileNotFoundError:
        return []
