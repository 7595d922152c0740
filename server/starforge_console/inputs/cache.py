"""The cache of fetched models and datasets as a source of the collector: what lies there, and how one of it goes."""

import asyncio
import contextlib
import errno
import fcntl
import math
import os
import re
import secrets
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from starforge.errors import NotFound
from starforge_console.assembly.layout import StorageLayout
from starforge_console.assembly.removal import remove_tree
from starforge_console.domain.hub_cache import RESUMABLE_S, SnapshotFacts, SnapshotId, decide_snapshots
from starforge_console.domain.inputs import HubInput, HubKind, JobInputs, is_commit
from starforge_console.domain.retention import Kind, Removal
from starforge_console.ledger.database import Database
from starforge_console.ledger.inputs import list_reading

KINDS: Final[Sequence[HubKind]] = ("model", "dataset")
_NAME: Final = re.compile(r"(model|dataset) ([A-Za-z0-9._-]{1,96}/[A-Za-z0-9._-]{1,96})@([0-9a-f]{40})(, unfinished)?")
_UNFINISHED: Final = re.compile(r"\.([0-9a-f]{40})\.fetching")
_ASIDE: Final = re.compile(r"\.([0-9a-f]{40})\.removing-[0-9a-f]{16}")


class HubCache:
    """What of one console's `cache/hf` may go. With `limit_bytes` of None only what fetches left half done does."""

    def __init__(self, storage: StorageLayout, ledger: Database, limit_bytes: int | None) -> None:
        self._storage = storage
        self._ledger = ledger
        self._limit_bytes = limit_bytes
        self._measured: dict[tuple[Path, int], int] = {}

    async def list_removals(self, now: float) -> Sequence[Removal]:
        """What may go now: never what a job reads that runs, waits or may be resumed, nor what its parent read."""
        snapshots = await asyncio.to_thread(lambda: list(self._look()))
        in_use = await self._load_in_use(now - RESUMABLE_S)
        return [
            Removal(kind=Kind.MODEL, name=_name(going.snapshot), bytes=going.snapshot.bytes, why=going.why)
            for going in decide_snapshots(snapshots, in_use, self._limit_bytes, now)
        ]

    async def remove(self, one: Removal) -> None:
        """Let it go; fine when it has gone already. What a job asked for meanwhile stays.

        Raises:
            NotFound: the name is none of a snapshot.
            OSError: the storage refuses, or the snapshot is being fetched.

        """
        found = _NAME.fullmatch(one.name)
        if found is None:
            raise NotFound(
                f"{one.name!r} is no snapshot of a model or dataset", next_step="'sf admin gc' lists what may go"
            )
        snapshot = SnapshotId("model" if found[1] == "model" else "dataset", found[2], found[3])
        folder = self._storage.hub_snapshot(*snapshot)
        if found[4]:
            await asyncio.to_thread(_finish_removals, folder)
            folder = folder.with_name(f".{folder.name}.fetching")
        await self._remove_folder(folder, snapshot, one.name)

    async def _remove_folder(self, place: Path, snapshot: SnapshotId, name: str) -> None:
        """Take it aside, so that no job is given half of it; look once more whether one asked for it meanwhile."""
        aside = place.with_name(f".{snapshot.commit}.removing-{secrets.token_hex(8)}")
        try:
            await asyncio.to_thread(_take_aside, place, aside)
        except FileNotFoundError:
            return
        if snapshot in await self._load_in_use(math.inf):
            await asyncio.to_thread(_put_back, aside, place)
            raise OSError(errno.EBUSY, "a job asked for it meanwhile", name)
        await asyncio.to_thread(remove_tree, aside)
        with contextlib.suppress(OSError):  # another revision is there
            place.parent.rmdir()

    async def _load_in_use(self, resumable_since: float) -> frozenset[SnapshotId]:
        read = await self._ledger.read(lambda c: list_reading(c, resumable_since))
        return frozenset(one for inputs in read for one in _list_snapshots(inputs))

    def _look(self) -> Iterator[SnapshotFacts]:
        for kind in KINDS:
            top = self._storage.hub_snapshot(kind, "_", "_").parent.parent
            for repo in sorted(top.glob("*/*")):
                for folder in sorted(repo.iterdir()) if repo.is_dir() and not repo.is_symlink() else ():
                    found = self._look_at(kind, f"{repo.parent.name}/{repo.name}", folder)
                    if found is not None:
                        yield found

    def _look_at(self, kind: HubKind, repo: str, folder: Path) -> SnapshotFacts | None:
        part = _UNFINISHED.fullmatch(folder.name) or _ASIDE.fullmatch(folder.name)
        commit = part[1] if part else folder.name
        if not is_commit(commit):
            return None
        try:
            status = folder.lstat()
            if not stat.S_ISDIR(status.st_mode):
                return None
            used_at = status.st_mtime if part is None else _find_newest(folder)
            size = self._measure_once(folder, status.st_ino) if part is None else _measure(folder)
        except FileNotFoundError:  # a fetch has ended in this moment
            return None
        return SnapshotFacts(id=SnapshotId(kind, repo, commit), bytes=size, used_at=used_at, is_whole=part is None)

    def _measure_once(self, folder: Path, inode: int) -> int:
        """The size of a snapshot that is whole, and therefore never changes."""
        size = self._measured.get((folder, inode))
        if size is None:
            size = self._measured[folder, inode] = _measure(folder)
        return size


def _name(snapshot: SnapshotFacts) -> str:
    return f"{snapshot.id}" if snapshot.is_whole else f"{snapshot.id}, unfinished"


def _list_snapshots(inputs: JobInputs) -> Iterator[SnapshotId]:
    for one in inputs.values():
        if isinstance(one, HubInput) and one.commit is not None:
            yield SnapshotId(one.ref.kind, one.ref.repo, one.commit)


def _finish_removals(folder: Path) -> None:
    """What an interrupted removal left."""
    for left in folder.parent.glob(f".{folder.name}.removing-*"):
        remove_tree(left)


def _take_aside(place: Path, aside: Path) -> None:
    """Rename it. Raises FileNotFoundError, and OSError while a process fetches into it."""
    if place.name.endswith(".fetching"):
        lock = os.open(place / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            place.rename(aside)
        finally:
            os.close(lock)
    else:
        place.rename(aside)


def _put_back(aside: Path, place: Path) -> None:
    try:
        aside.rename(place)
    except OSError:  # it was fetched again in the meantime
        remove_tree(aside)


def _measure(folder: Path) -> int:
    return sum(one.stat(follow_symlinks=False).st_size for one in _walk(folder))


def _find_newest(folder: Path) -> float:
    times = (one.stat(follow_symlinks=False).st_mtime for one in _walk(folder))
    return max(times, default=folder.lstat().st_mtime)


def _walk(folder: Path) -> Iterator[os.DirEntry[str]]:
    waiting = [os.fspath(folder)]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                else:
                    yield entry
