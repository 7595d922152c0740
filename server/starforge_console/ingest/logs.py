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
from starforge_console.ingest.streams import Stores
from starforge_console.ledger.series import Segment, list_files, list_segments, stream_state

SEGMENTS_A_READ: Final = 64
_SEGMENTS_A_CHECK: Final = 500

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


class Logs:
    """The logs that were received."""

    def __init__(self, stores: Stores) -> None:
        self._series = stores.series
        self._root = stores.logs_dir

    async def read_log(self, attempt: str, from_byte: int, limit_bytes: int) -> LogSlice:
        """At most `limit_bytes` of the attempt's log from `from_byte` on; empty when there are none yet."""
        received_to, ended = await self._series.read(lambda c: stream_state(c, attempt, STREAM_LOG))
        end = min(received_to, from_byte + limit_bytes)
        if from_byte >= end:
            return LogSlice(content=b"", next_offset=from_byte, received_to=received_to, ended=ended)
        segments = await self._series.read(lambda c: list_segments(c, attempt, STREAM_LOG, from_byte, SEGMENTS_A_READ))
        if len(segments) == SEGMENTS_A_READ:
            end = min(end, segments[-1].to_byte)
        content, missing = await asyncio.to_thread(_read, self._root, segments, (from_byte, end))
        return LogSlice(content=content, next_offset=end, received_to=received_to, ended=ended, missing=missing)

    async def find_missing(self, attempt: str, produced_bytes: int | None = None) -> tuple[Range, ...]:
        """The ranges of the log that are not here, by the length of its files; whoever reads it learns of damage."""
        received_to, _ = await self._series.read(lambda c: stream_state(c, attempt, STREAM_LOG))
        missing: list[Range] = []
        at = 0 if not await self._seems_whole(attempt, received_to) else received_to
        while at < received_to:
            start = at
            segments = await self._series.read(
                lambda c: list_segments(c, attempt, STREAM_LOG, start, _SEGMENTS_A_CHECK)  # noqa: B023 - awaited at once
            )
            at = segments[-1].to_byte if len(segments) == _SEGMENTS_A_CHECK else received_to
            missing += await asyncio.to_thread(_check, self._root, segments, (start, at))
        if produced_bytes is not None and produced_bytes > received_to:
            missing.append((received_to, produced_bytes))
        return _merge(missing)

    async def _seems_whole(self, attempt: str, received_to: int) -> bool:
        """Whether everything is indexed and the files are long enough: cheap, and all there is to do most often."""
        files = await self._series.read(lambda c: list_files(c, attempt, STREAM_LOG))
        if sum(indexed for _, _, indexed in files) < received_to:
            return False
        return await asyncio.to_thread(lambda: all(_has_size(self._root / file, end) for file, end, _ in files))

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


def _check(root: Path, segments: Sequence[Segment], wanted: Range) -> list[Range]:
    at, end = wanted
    missing: list[Range] = []
    for segment in segments:
        if segment.from_byte > at:
            missing.append((at, segment.from_byte))
        if not _is_long_enough(root, segment):
            missing.append((segment.from_byte, segment.to_byte))
        at = segment.to_byte
    return [*missing, (at, end)] if at < end else missing


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
