"""The log: bytes are appended to a segment file, brought to the disk, and only then indexed and acknowledged.

What lies in a file past the last indexed byte was never acknowledged: it is cut when the file is written to again. Of a
log that is longer than is kept, its head and its newest part stay; whole files in between are let go.
"""

import asyncio
import os
import zlib
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Final, TypeVar

from starforge.contract.capsule import STREAM_LOG
from starforge.contract.ids import AttemptId
from starforge.durable import sync_folder
from starforge.errors import Unavailable
from starforge_console.clock import Clock
from starforge_console.ingest.bounds import LogRoom, describe_cap
from starforge_console.ingest.streams import Mark, Piece, Stores, StreamMoved
from starforge_console.ledger.log_index import LogFile, drop_file, list_log_files
from starforge_console.ledger.reports import ReportingAttempt, tell_once
from starforge_console.ledger.series import Segment, advance_stream, find_tail, keep_segment, stream_state

SEGMENT_BYTES: Final = 64 << 10
"""Small sends share one row of the index up to this size, which is also the least that a reader has to check."""

T = TypeVar("T")


@dataclass(slots=True)
class _Tail:
    """Where the next byte goes, and what is kept.

    `segment` is the last row of the index, None before the first. `lines` is how many lines have ended so far, None
    where an older version did not count them. `ring` are the files behind the log's head, oldest first.
    """

    segment: Segment | None
    file: str
    position: int
    lines: int | None
    ring: deque[LogFile]


class LogSink:
    """Keeps logs in files below a folder; each attempt has one writer. A node's logs are a stream of their own."""

    def __init__(self, stores: Stores, clock: Clock, threads: Executor, stream: str = STREAM_LOG) -> None:
        self._stream = stream
        self._ledger = stores.ledger
        self._clock = clock
        self._room = LogRoom(stores.bounds.log_max_bytes)
        self._series = stores.series
        self._root = stores.logs_dir
        self._threads = threads
        self._tails: dict[AttemptId, _Tail] = {}

    async def load_mark(self, attempt: ReportingAttempt) -> Mark:
        """The mark as it is on disk; the file is cut to what is indexed."""
        received_to, ended, last, files = await self._series.read(
            lambda c: (
                *stream_state(c, attempt.id, self._stream),
                find_tail(c, attempt.id, self._stream),
                list_log_files(c, attempt.id, self._stream),
            )
        )
        ring = deque(file for file in files if file.from_byte >= self._room.head_bytes)
        self._tails[attempt.id] = await self._in_thread(
            lambda: _reopen(self._root, self._name(attempt.id, received_to), last, ring)
        )
        return Mark(received_to, ended)

    async def keep(self, piece: Piece) -> int:
        """Append, bring to the disk, index; raises Unavailable when the disk refuses.

        Of a log that is longer than is kept, the oldest files behind its head make room for what comes: their bytes
        count as received, and are missing from then on.
        """
        passed_to = self._room.find_passed(piece.at, len(piece.content))
        if passed_to > piece.at:
            return await self.pass_over(piece.attempt, piece.at, passed_to)
        piece = replace(piece, content=piece.content[: self._room.find_fitting(piece.at)])
        tail = self._tails.pop(piece.attempt.id)
        await self._make_room(piece, tail)
        if self._room.begins_file(tail.position, piece.at, tail.segment):
            tail.file, tail.position = self._name(piece.attempt.id, piece.at), 0
        await self._in_thread(lambda: _append(self._root / tail.file, tail.position, piece.content))
        segment = _extend(tail, piece)
        kept = await self._series.write(lambda c: keep_segment(c, piece.attempt.id, self._stream, segment, piece.at))
        if not kept:
            raise StreamMoved
        self._tails[piece.attempt.id] = _grow(tail, segment, piece, self._room)
        return segment.to_byte

    async def pass_over(self, attempt: ReportingAttempt, at: int, to: int) -> int:
        """Move the mark over bytes that are not kept, which the timeline says once."""
        tail = self._tails.pop(attempt.id, None)
        await self._tell_cap(attempt)
        if not await self._series.write(lambda c: advance_stream(c, attempt.id, self._stream, at, to)):
            raise StreamMoved
        if tail is not None:
            self._tails[attempt.id] = tail
        return to

    def forget(self, attempt: AttemptId) -> None:
        """Drop what is remembered of the attempt."""
        self._tails.pop(attempt, None)

    async def _make_room(self, piece: Piece, tail: _Tail) -> None:
        """Let the oldest files behind the head go until the piece fits; first from the index, then from the disk."""
        dropped = []
        kept_bytes = sum(file.indexed_bytes for file in tail.ring)
        while tail.ring and kept_bytes + len(piece.content) > self._room.tail_bytes:
            oldest = tail.ring.popleft()
            kept_bytes -= oldest.indexed_bytes
            dropped.append(oldest.file)
            if oldest.file == tail.file:
                tail.segment, tail.file, tail.position = None, self._name(piece.attempt.id, piece.at), 0
        if not dropped:
            return
        await self._tell_cap(piece.attempt)
        for file in dropped:
            await self._drop(piece.attempt.id, file)

    async def _drop(self, attempt: AttemptId, file: str) -> None:
        await self._series.write(lambda c: drop_file(c, attempt, self._stream, file))
        await self._in_thread(lambda: _remove(self._root / file))

    async def _tell_cap(self, attempt: ReportingAttempt) -> None:
        now, told = self._clock.now(), describe_cap(self._room.max_bytes)
        await self._ledger.write(lambda c: tell_once(c, attempt, told, now))

    def _name(self, attempt: AttemptId, from_byte: int) -> str:
        return f"{attempt}/{self._stream}-{from_byte:015d}"

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


def _reopen(root: Path, new: str, last: Segment | None, ring: deque[LogFile]) -> _Tail:
    fresh = _Tail(last, new, 0, 0, ring)
    if last is None:
        return fresh
    end = last.position + last.to_byte - last.from_byte
    try:
        with (root / last.file).open("r+b") as file:
            fresh.lines = _count_lines(file, last)
            if file.seek(0, os.SEEK_END) < end:
                # Indexed bytes are gone from the disk: readers are told, and nothing is written over the hole.
                return fresh
            file.truncate(end)
    except FileNotFoundError:
        fresh.lines = last.lines_before
        return fresh
    except OSError as error:
        raise _refused(root / last.file, error) from error
    return replace(fresh, file=last.file, position=end)


def _count_lines(file: IO[bytes], last: Segment) -> int | None:
    """How many lines have ended up to the end of the last segment."""
    if last.lines_before is None:
        return None
    file.seek(last.position)
    return last.lines_before + file.read(last.to_byte - last.from_byte).count(b"\n")


def _grow(tail: _Tail, segment: Segment, piece: Piece, room: LogRoom) -> _Tail:
    """The tail once the piece is indexed."""
    size_bytes = len(piece.content)
    if piece.at >= room.head_bytes:
        here = tail.ring.pop() if tail.ring and tail.ring[-1].file == tail.file else LogFile(tail.file, piece.at, 0)
        tail.ring.append(replace(here, indexed_bytes=here.indexed_bytes + size_bytes))
    tail.lines = None if tail.lines is None else tail.lines + piece.content.count(b"\n")
    tail.segment, tail.position = segment, tail.position + size_bytes
    return tail


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise _refused(path, error) from error


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
        from_byte=piece.at,
        to_byte=to,
        file=tail.file,
        position=tail.position,
        crc=zlib.crc32(piece.content),
        lines_before=tail.lines,
    )
