"""What of jobs and uploads lies on disks, and how it goes: every step can be repeated. Waits for the disk.

A checkpoint is first moved out of its folder, and a blob out of its place, so that nobody ever finds half of one.
"""

import contextlib
import errno
import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from starforge.contract.capsule import CKPT_DIRECTORY, SPOOL_DIRECTORY, WORK_DIRECTORY
from starforge.contract.ids import AttemptId, Digest
from starforge_console.assembly.layout import StorageLayout
from starforge_console.assembly.removal import remove_tree
from starforge_console.blobs.places import locate_incoming
from starforge_console.domain.retention import AttemptFacts, CheckpointFacts, FileFacts, JobFacts, Kind, Removal
from starforge_console.ingest.outputs import list_checkpoints, measure_files
from starforge_console.ingest.spool import StrangeFile, open_folder

WORK_FOLDERS: Final = (WORK_DIRECTORY, "home")
"""Of an attempt: what it worked in, which no later attempt reads."""
_ASIDE: Final = "removing-"
_HEX: Final = re.compile(r"[0-9a-f]{64}")
_ENTRIES_MEASURED: Final = 100_000
_LINK: Final = frozenset({errno.ELOOP, errno.ENOTDIR})


@dataclass(frozen=True, slots=True)
class Disk:
    """The storage root, and the folder that holds the logs."""

    storage: StorageLayout
    logs_dir: Path

    def look(self, job: JobFacts) -> JobFacts:
        """The job with what of it is really there. Raises Unavailable when the storage refuses."""
        return replace(job, attempts=tuple(map(self._look_at, job.attempts)))

    def measure(self, one: Removal) -> int:
        """How many bytes it takes, as far as a bounded look can tell."""
        return sum(map(_measure, self._places(one)))

    def measure_checkpoints(self, attempt: AttemptId) -> int:
        """How many bytes the attempt's checkpoints hold. Raises Unavailable when the storage refuses."""
        return measure_files(self.storage.attempt(attempt).kept)

    def remove(self, one: Removal) -> None:
        """Remove what belongs to an attempt; fine when it has gone already. Raises OSError and StarForgeError."""
        if one.kind is Kind.CHECKPOINT:
            self._move_aside(one)
        for place in self._places(one):
            _remove(place)

    def list_blobs(self) -> list[FileFacts]:
        """Every blob by its digest; whether anything refers to it is not known here."""
        root = self.storage.root / "blobs" / "sha256"
        return [
            replace(file, name=f"sha256:{file.name}")
            for folder in _entries(root)
            for file in _files(Path(folder.path))
            if _HEX.fullmatch(file.name)
        ]

    def list_uploads(self) -> list[FileFacts]:
        """What is left of uploads that were cut, each by its file's name."""
        return [file for file in _files(locate_incoming(self.storage.root)) if not file.name.startswith(_ASIDE)]

    def remove_upload(self, name: str) -> None:
        """Remove it; fine when it has gone, or was gone on with."""
        (locate_incoming(self.storage.root) / name).unlink(missing_ok=True)

    def take_blob_aside(self, digest: Digest) -> Path | None:
        """Move a blob out of its place; None when it is not there any more."""
        aside = locate_incoming(self.storage.root) / f"{_ASIDE}{digest.removeprefix('sha256:')}"
        aside.parent.mkdir(parents=True, exist_ok=True)
        try:
            self.storage.blob(digest).replace(aside)
        except FileNotFoundError:
            return None
        return aside

    def put_blobs_back(self) -> None:
        """Put back what was taken aside: by a pass that was cut off nothing is decided."""
        for entry in _entries(locate_incoming(self.storage.root)):
            digest = entry.name.removeprefix(_ASIDE)
            if entry.name.startswith(_ASIDE) and _HEX.fullmatch(digest):
                Path(entry.path).replace(self.storage.blob(Digest(f"sha256:{digest}")))

    def _look_at(self, attempt: AttemptFacts) -> AttemptFacts:
        layout = self.storage.attempt(AttemptId(attempt.id))
        return replace(
            attempt,
            has_work=attempt.has_work and any(os.path.lexists(layout.root / name) for name in WORK_FOLDERS),
            has_log=attempt.has_log
            and ((self.logs_dir / attempt.id).is_dir() or (layout.root / SPOOL_DIRECTORY).is_dir()),
            checkpoints=_list_checkpoints(layout.kept),
        )

    def _places(self, one: Removal) -> list[Path]:
        layout = self.storage.attempt(AttemptId(one.attempt))
        if one.kind is Kind.WORK:
            return [layout.root / name for name in WORK_FOLDERS]
        if one.kind is Kind.LOG:
            nodes = [Path(entry.path) for entry in _entries(layout.root) if entry.name.startswith("node-")]
            return [self.logs_dir / one.attempt, layout.root / SPOOL_DIRECTORY, *nodes]
        if one.kind is Kind.CHECKPOINT:
            return [layout.checkpoints / one.name, layout.kept / _name_aside(one.name)]
        return []

    def _move_aside(self, one: Removal) -> None:
        """Move the checkpoint to where nobody looks for one, none of the folders on the way being a link."""
        layout = self.storage.attempt(AttemptId(one.attempt))
        *folders, name = one.name.split("/")
        _remove(layout.kept / _name_aside(one.name))
        with contextlib.ExitStack() as opened:
            try:
                here = opened.enter_context(open_folder(layout.kept, CKPT_DIRECTORY, *folders))
            except StrangeFile:
                return  # no checkpoint of ours lies behind a link
            kept = opened.enter_context(open_folder(layout.kept))
            if here is not None and kept is not None:
                with contextlib.suppress(FileNotFoundError):
                    os.rename(name, _name_aside(one.name), src_dir_fd=here, dst_dir_fd=kept)


def _name_aside(path: str) -> str:
    return f"{_ASIDE}{hashlib.sha256(os.fsencode(path)).hexdigest()[:32]}"


def _list_checkpoints(kept: Path) -> tuple[CheckpointFacts, ...]:
    try:
        found = list_checkpoints(kept)
    except StrangeFile:
        return ()
    return tuple(
        CheckpointFacts(
            path=one["path"].removeprefix(CKPT_DIRECTORY).removeprefix("/"),
            step=one["step"],
            committed=one["committed"],
        )
        for one in found
    )


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        yield from entries


def _files(folder: Path) -> Iterator[FileFacts]:
    for entry in _entries(folder):
        with contextlib.suppress(FileNotFoundError):
            found = entry.stat(follow_symlinks=False)
            if entry.is_file(follow_symlinks=False):
                yield FileFacts(name=entry.name, bytes=found.st_size, used_at=found.st_mtime, is_referenced=False)


def _measure(place: Path) -> int:
    total, seen = 0, 0
    waiting = [place]
    while waiting and seen < _ENTRIES_MEASURED:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    seen += 1
                    total += entry.stat(follow_symlinks=False).st_size
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(Path(entry.path))
        except OSError:
            continue  # it has gone, or is closed: the size is told as far as it is known
    return total


def _remove(place: Path) -> None:
    try:
        remove_tree(place)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno not in _LINK:
            raise
        place.unlink(missing_ok=True)  # a job may have put a link or a file in the folder's place
