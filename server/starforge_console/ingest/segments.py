"""The log: bytes are appended to a segment file, brought to the disk, and only then indexed and acknowledged.

What lies in a file past the last indexed byte was never acknowledged: it is cut when the file is written to again.
"""

import asyncio
import os
import zlib
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

from starforge.contract.capsule import STREAM_LOG
from starforge.contract.ids import AttemptId
from starforge.durable import sync_folder
from starforge.errors import Unavailable
from starforge_console.clock import Clock
from starforge_console.ingest.bounds import describe_cap
from starforge_console.ingest.streams import Mark, Piece, Stores, StreamMoved
from starforge_console.ledger.reports import ReportingAttempt, tell_once
from starforge_console.ledger.series import Segment, advance_stream, find_tail, keep_segment, stream_state

SEGMENT_BYTES: Final = 64 << 10
"""Small sends share one row of the index up to this size, which is also the least that a reader has to check."""
FILE_BYTES: Final = 64 << 20
"""A new file is begun once this one holds so much."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Tail:
    """Where the next byte goes: `segment` is the last row of the index, None before the first."""

    segment: Segment | None
    file: str
    position: int


class LogSink:
    """Keeps logs in files below a folder; each attempt has one writer."""

    def __init__(self, stores: Stores, clock: Clock, threads: Executor) -> None:
        self._ledger = stores.ledger
        self._clock = clock
        self._max_bytes = stores.bounds.log_max_bytes
        self._series = stores.series
        self._root = stores.logs_dir
        self._threads = threads
        self._tails: dict[AttemptId, _Tail] = {}

    async def load_mark(self, attempt: ReportingAttempt) -> Mark:
        """The mark as it is on disk; the file is cut to what is indexed."""
        received_to, ended = await self._series.read(lambda c: stream_state(c, attempt.id, STREAM_LOG))
        last = await self._series.read(lambda c: find_tail(c, attempt.id, STREAM_LOG))
        self._tails[attempt.id] = await self._in_thread(lambda: _reopen(self._root, attempt.id, received_to, last))
        return Mark(received_to, ended)

    async def keep(self, piece: Piece) -> int:
        """Append, bring to the disk, index; raises Unavailable when the disk refuses.

        Of a log that is longer than is kept the rest is passed over: its bytes count as received, and are missing.
        """
        room_bytes = self._max_bytes - piece.at
        if room_bytes <= 0:
            return await self._pass_over(piece)
        piece = replace(piece, content=piece.content[:room_bytes])
        tail = _roll(self._tails.pop(piece.attempt.id), piece)
        await self._in_thread(lambda: _append(self._root / tail.file, tail.position, piece.content))
        segment = _extend(tail, piece)
        kept = await self._series.write(lambda c: keep_segment(c, piece.attempt.id, STREAM_LOG, segment, piece.at))
        if not kept:
            raise StreamMoved
        self._tails[piece.attempt.id] = _Tail(segment, tail.file, tail.position + len(piece.content))
        return segment.to_byte

    def forget(self, attempt: AttemptId) -> None:
        """Drop what is remembered of the attempt."""
        self._tails.pop(attempt, None)

    async def _pass_over(self, piece: Piece) -> int:
        to, now = piece.at + len(piece.content), self._clock.now()
        told = describe_cap(self._max_bytes)
        await self._ledger.write(lambda c: tell_once(c, piece.attempt, told, now))
        if not await self._series.write(lambda c: advance_stream(c, piece.attempt.id, STREAM_LOG, piece.at, to)):
            raise StreamMoved
        return to

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


def _reopen(root: Path, attempt: AttemptId, received_to: int, last: Segment | None) -> _Tail:
    if last is None:
        return _fresh(attempt, received_to, None)
    end = last.position + last.to_byte - last.from_byte
    try:
        with (root / last.file).open("r+b") as file:
            if file.seek(0, os.SEEK_END) < end:
                # Indexed bytes are gone from the disk: readers are told, and nothing is written over the hole.
                return _fresh(attempt, received_to, last)
            file.truncate(end)
    except FileNotFoundError:
        return _fresh(attempt, received_to, last)
    except OSError as error:
        raise _refused(root / last.file, error) from error
    return _Tail(last, last.file, end)


def _fresh(attempt: AttemptId, received_to: int, last: Segment | None) -> _Tail:
    return _Tail(last, f"{attempt}/{STREAM_LOG}-{received_to:015d}", 0)


def _roll(tail: _Tail, piece: Piece) -> _Tail:
    return _fresh(piece.attempt.id, piece.at, tail.segment) if tail.position >= FILE_BYTES else tail


def _append(path: Path, position: int, content: bytes) -> None:
    try:
        if position == 0:
            path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(
            path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (os.O_TRUNC if position == 0 else 0), 0o600
        )
        try:
            _write_all(descriptor, position, content)
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)
        if position == 0:
            for folder in (path.parent, path.parent.parent):
                sync_folder(folder)
    except OSError as error:
        raise _refused(path, error) from error


def _refused(path: Path, error: OSError) -> Unavailable:
    return Unavailable(
        f"the log could not be written to {path}",
        why=error.strerror or str(error),
        next_step="look at the disk that holds FORGE_CONSOLE_STATE_DIR",
    )


def _write_all(descriptor: int, position: int, content: bytes) -> None:
    done = 0
    while done < len(content):
        done += os.pwrite(descriptor, memoryview(content)[done:], position + done)


def _extend(tail: _Tail, piece: Piece) -> Segment:
    """The row that holds the piece: the last one made longer while that is short and followed, or a new one."""
    to = piece.at + len(piece.content)
    last = tail.segment
    follows = (
        last is not None
        and (last.to_byte, last.file) == (piece.at, tail.file)
        and last.position + last.to_byte - last.from_byte == tail.position
    )
    if last is not None and follows and to - last.from_byte <= SEGMENT_BYTES:
        return replace(last, to_byte=to, crc=zlib.crc32(piece.content, last.crc))
    return Segment(
        from_byte=piece.at, to_byte=to, file=tail.file, position=tail.position, crc=zlib.crc32(piece.content)
    )
