"""Reads logs back: every byte is checked before it is handed out, and what is missing is said, never hidden."""

import asyncio
import os
import shutil
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starforge.contract.capsule import STREAM_LOG
from starforge_console.ingest.streams import Stores, log_stream
from starforge_console.ledger.log_index import (
    find_segment_of_byte,
    find_segment_of_end,
    find_unnumbered,
    list_gaps,
    list_segments_of_file,
    number_segments,
)
from starforge_console.ledger.series import Segment, list_files, list_segments, stream_state

SEGMENTS_A_READ: Final = 64
_SEGMENTS_A_COUNT: Final = 64

Range = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSlice:
    """Bytes of a log from the asked offset on; `next_offset` follows them.

    `missing` are the parts of it that are lost: in their place the content holds a marker of the same length, so that
    offsets hold. `received_to` is how much of the log is here, `ended` whether nothing will be added.
    """

    content: bytes
    next_offset: int
    received_to: int
    ended: bool
    missing: tuple[Range, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPart:
    """Bytes of a log that follow one another, or a range of it that is not here.

    `gap` is that range, and `content` is empty then; `next_offset` is where reading goes on in either case.
    """

    content: bytes
    next_offset: int
    received_to: int
    ended: bool
    gap: Range | None = None


@dataclass(frozen=True, slots=True)
class LinePlace:
    """Where a line begins. After a gap that is the first byte behind it, which may lie inside the line."""

    number: int
    offset: int


@dataclass(frozen=True, slots=True)
class _Loaded:
    """What was read up to `end`, with a marker in the place of what is `missing`.

    `resumes_at` is where bytes are here again, where those before `end` are missing.
    """

    content: bytes
    end: int
    missing: tuple[Range, ...]
    resumes_at: int
    received_to: int
    ended: bool


class Logs:
    """The logs that were received."""

    def __init__(self, stores: Stores, stream: str = STREAM_LOG) -> None:
        self._stores = stores
        self._series = stores.series
        self._root = stores.logs_dir
        self._stream = stream

    def of_node(self, rank: int) -> "Logs":
        """The logs of what this node of each attempt printed: 0, which leads, for that of the attempt."""
        return self if rank == 0 else Logs(self._stores, log_stream(rank))

    async def read_log(self, attempt: str, from_byte: int, limit_bytes: int) -> LogSlice:
        """At most `limit_bytes` of the attempt's log from `from_byte` on; empty when there are none yet."""
        read = await self._load(attempt, from_byte, limit_bytes)
        return LogSlice(
            content=read.content,
            next_offset=read.end,
            received_to=read.received_to,
            ended=read.ended,
            missing=read.missing,
        )

    async def read_part(self, attempt: str, from_byte: int, limit_bytes: int) -> LogPart:
        """At most `limit_bytes` of the attempt's log from `from_byte` on, or what is missing there."""
        read = await self._load(attempt, from_byte, limit_bytes)
        content, following, gap = read.content, read.end, None
        if read.missing:
            first, behind = read.missing[0]
            following = first if first > from_byte else read.resumes_at if behind == read.end else behind
            gap = (first, following) if first == from_byte else None
            content = content[: first - from_byte]
        return LogPart(content=content, next_offset=following, received_to=read.received_to, ended=read.ended, gap=gap)

    async def find_line(self, attempt: str, number: int) -> LinePlace | None:
        """Where line `number` begins, or the first one behind it that is here; None when the log ends before it."""
        if number <= 1:
            return LinePlace(1, 0)
        await self._number(attempt)
        segment = await self._series.read(lambda c: find_segment_of_end(c, attempt, self._stream, number - 1))
        if segment is None or segment.lines_before is None:
            return None
        content = await asyncio.to_thread(_find_bytes, self._root, segment)
        at = -1 if content is None else _find_end(content, number - 1 - segment.lines_before)
        if at >= 0:
            return LinePlace(number, segment.from_byte + at + 1)
        later = await self._list_segments(attempt, segment.to_byte, 1)
        return LinePlace((later[0].lines_before or 0) + 1, later[0].from_byte) if later else None

    async def number_of(self, attempt: str, offset: int) -> int:
        """The number of the line that holds the byte at `offset`."""
        await self._number(attempt)
        segment = await self._series.read(lambda c: find_segment_of_byte(c, attempt, self._stream, offset))
        if segment is None:
            return 1
        content = await asyncio.to_thread(_find_bytes, self._root, segment) or b""
        return (segment.lines_before or 0) + content[: offset - segment.from_byte].count(b"\n") + 1

    async def find_missing(self, attempt: str, produced_bytes: int | None = None) -> tuple[Range, ...]:
        """The ranges of the log that are not here, by the length of its files; whoever reads it learns of damage."""
        received_to, _ = await self._series.read(lambda c: stream_state(c, attempt, self._stream))
        files = await self._series.read(lambda c: list_files(c, attempt, self._stream))
        missing: list[Range] = []
        if sum(indexed for _, _, indexed in files) < received_to:
            missing += await self._series.read(lambda c: list_gaps(c, attempt, self._stream, received_to))
        for file in await asyncio.to_thread(_list_short, self._root, files):
            held = await self._series.read(
                lambda c: list_segments_of_file(c, attempt, self._stream, file)  # noqa: B023 - awaited at once
            )
            missing += await asyncio.to_thread(_list_cut, self._root, held)
        if produced_bytes is not None and produced_bytes > received_to:
            missing.append((received_to, produced_bytes))
        return _merge(missing)

    async def _list_segments(self, attempt: str, from_byte: int, most: int) -> Sequence[Segment]:
        return await self._series.read(lambda c: list_segments(c, attempt, self._stream, from_byte, most))

    async def _load(self, attempt: str, from_byte: int, limit_bytes: int) -> "_Loaded":
        received_to, ended = await self._series.read(lambda c: stream_state(c, attempt, self._stream))
        end = min(received_to, from_byte + limit_bytes)
        if from_byte >= end:
            return _Loaded(b"", from_byte, (), from_byte, received_to, ended)
        segments = await self._list_segments(attempt, from_byte, SEGMENTS_A_READ)
        is_all = len(segments) < SEGMENTS_A_READ
        end = end if is_all else min(end, segments[-1].to_byte)
        content, missing = await asyncio.to_thread(_read, self._root, segments, (from_byte, end))
        later = (segment.from_byte for segment in segments if segment.from_byte >= end)
        resumes_at = next(later, received_to if is_all else end)
        return _Loaded(content, end, missing, resumes_at, received_to, ended)

    async def _number(self, attempt: str) -> None:
        """Count the lines before each segment that an older version kept, once."""
        while True:
            found = await self._series.read(lambda c: find_unnumbered(c, attempt, self._stream, _SEGMENTS_A_COUNT))
            if not found:
                return
            first = found[0].from_byte
            before = await self._series.read(lambda c: find_segment_of_byte(c, attempt, self._stream, first - 1))  # noqa: B023 - awaited at once
            numbers = await asyncio.to_thread(_count, self._root, before, found)
            await self._series.write(lambda c: number_segments(c, attempt, self._stream, numbers))  # noqa: B023 - awaited at once

    async def remove_logs(self, attempts: Sequence[str]) -> None:
        """Remove the files that hold the logs of these attempts; fine when there are none."""
        for attempt in attempts:
            await asyncio.to_thread(_remove, self._root / attempt)


def _read(root: Path, segments: Sequence[Segment], wanted: Range) -> tuple[bytes, tuple[Range, ...]]:
    at, end = wanted
    content = bytearray()
    missing: list[Range] = []
    for segment in segments:
        if segment.from_byte >= end:
            break
        missing += _fill(content, (at, segment.from_byte))
        at = max(at, segment.from_byte)
        to = min(segment.to_byte, end)
        found = _find_bytes(root, segment)
        if found is None:
            missing += _fill(content, (at, to))
        else:
            content += memoryview(found)[at - segment.from_byte : to - segment.from_byte]
        at = to
    missing += _fill(content, (at, end))
    return bytes(content), _merge(missing)


def _list_short(root: Path, files: Sequence[tuple[str, int, int]]) -> list[str]:
    return [file for file, end, _ in files if not _has_size(root / file, end)]


def _list_cut(root: Path, segments: Sequence[Segment]) -> list[Range]:
    return [(segment.from_byte, segment.to_byte) for segment in segments if not _is_long_enough(root, segment)]


def _count(root: Path, before: Segment | None, segments: Sequence[Segment]) -> dict[int, int]:
    """How many lines end before each of the segments, which follow `before`; what is lost holds no line."""
    lines = 0
    if before is not None:
        lines = (before.lines_before or 0) + (_find_bytes(root, before) or b"").count(b"\n")
    numbers: dict[int, int] = {}
    for segment in segments:
        numbers[segment.from_byte] = lines
        lines += (_find_bytes(root, segment) or b"").count(b"\n")
    return numbers


def _find_end(content: bytes, ends: int) -> int:
    """Where the line ends that is the `ends`-th to end in `content`; -1 where fewer do."""
    at = -1
    for _ in range(ends):
        at = content.find(b"\n", at + 1)
        if at < 0:
            break
    return at


def _find_bytes(root: Path, segment: Segment) -> bytes | None:
    """The segment's bytes if they are those that were received."""
    size_bytes = segment.to_byte - segment.from_byte
    try:
        descriptor = os.open(root / segment.file, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        content = os.pread(descriptor, size_bytes, segment.position)
    except OSError:  # the disk cannot read it: to the reader it is as lost as one that was overwritten
        return None
    finally:
        os.close(descriptor)
    return content if len(content) == size_bytes and zlib.crc32(content) == segment.crc else None


def _is_long_enough(root: Path, segment: Segment) -> bool:
    return _has_size(root / segment.file, segment.position + segment.to_byte - segment.from_byte)


def _has_size(path: Path, size_bytes: int) -> bool:
    try:
        return path.stat().st_size >= size_bytes
    except FileNotFoundError:
        return False


def _fill(content: bytearray, lost: Range) -> list[Range]:
    """Put a marker of the same length in the place of what is lost."""
    size_bytes = lost[1] - lost[0]
    if size_bytes <= 0:
        return []
    text = f"\n[starforge: bytes {lost[0]} to {lost[1]} of this log are lost]\n".encode()
    content += text[:size_bytes].ljust(size_bytes, b" ")
    return [lost]


def _merge(ranges: Sequence[Range]) -> tuple[Range, ...]:
    merged: list[Range] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)


def _remove(folder: Path) -> None:
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
