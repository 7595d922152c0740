"""Reads the scalars of TensorBoard event files while they grow, without TensorBoard."""

from __future__ import annotations

import json
import os
import struct
import time
from typing import Any, Dict, Iterator, List, Optional, Tuple

from starforge.runner.plainfiles import list_files, open_plain
from starforge.runner.progress import Progress
from starforge.runner.spool import Spool, build_finite

# A record: length (8 bytes), its check sum (4), the event, its check sum (4). Sums are not compared: a torn write is
# seen by its length, and crc32c in Python would cost more than the rest.
_HEAD_BYTES = 12
_TAIL_BYTES = 4
_RECORD_BYTES = 2 << 30
_SCALARS_BYTES = 1 << 20
_READ_BYTES = 512 << 10
_VARINT_BITS = 70
_MOST_FILES = 10_000
_POLL_S = 5.0

# Wire types of protocol buffers.
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
# Event: wall_time = 1, step = 2, summary = 5. Summary: value = 1. Value: tag = 1, simple_value = 2, tensor = 8.
_DT_FLOAT, _DT_DOUBLE = 1, 2


class TensorboardSource:
    """Every event file at or below a directory."""

    def __init__(self, directory: str, spool: Spool, progress: Progress) -> None:
        self._directory = directory
        self._spool = spool
        self._progress = progress
        self._offsets: Dict[str, int] = {}

    def poll(self) -> None:
        """Bring the scalars of every new event into the spool, as far as a few seconds go."""
        deadline = time.monotonic() + _POLL_S
        listing = list_files(self._directory, deadline=deadline)
        names = [name for name, _, _ in listing.files if "tfevents" in os.path.basename(name)]
        for name in names[:_MOST_FILES]:
            path = os.path.join(self._directory, name)
            while self._offsets.get(path, 0) >= 0 and time.monotonic() < deadline:
                if not self._read(path):
                    break

    def _read(self, path: str) -> bool:
        """Read a piece; False when there is nothing new."""
        offset = self._offsets.get(path, 0)
        try:
            events, consumed = read_events(path, offset)
        except (OSError, ValueError, struct.error, IndexError) as error:
            self._offsets[path] = -1
            self._spool.event("note", code="tensorboard_file", message=f"{path} is not read any further: {error}")
            return False
        self._offsets[path] = offset + consumed
        lines = []
        for moment, step, values in events:
            self._progress.note_step(step)
            lines.append(
                json.dumps({"time": moment, "step": step, "values": build_finite(values)}, separators=(",", ":"))
            )
        if lines:
            self._spool.metrics(("\n".join(lines) + "\n").encode("ascii"))
        return consumed > 0


def read_events(path: str, offset: int) -> "tuple[list[tuple[float, int, dict[str, float]]], int]":
    """Read whole events from `offset`: (time, step, scalars) of those that have scalars, and the bytes consumed.

    A record that is too large for scalars, such as one of images, is passed over. Raises OSError, and ValueError or
    struct.error for a file that is not an event file.
    """
    with open(open_plain(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(offset)
        chunk = file.read(_READ_BYTES)
        if len(chunk) >= _HEAD_BYTES:
            wanted = struct.unpack_from("<Q", chunk)[0] + _HEAD_BYTES + _TAIL_BYTES
            if wanted > _RECORD_BYTES:
                raise ValueError(f"a record of {wanted} bytes at {offset} cannot be true")
            if wanted > _SCALARS_BYTES:
                return [], wanted if offset + wanted <= size else 0
            chunk += file.read(max(0, wanted - len(chunk)))
    events, at = [], 0
    while at + _HEAD_BYTES <= len(chunk):
        length = struct.unpack_from("<Q", chunk, at)[0]
        end = at + _HEAD_BYTES + length + _TAIL_BYTES
        if end > len(chunk):
            break
        event = _read_event(chunk[at + _HEAD_BYTES : end - _TAIL_BYTES])
        if event[2]:
            events.append(event)
        at = end
    return events, at


def _read_event(message: bytes) -> Tuple[float, int, Dict[str, float]]:
    moment, step = 0.0, 0
    values: Dict[str, float] = {}
    for number, kind, content in _read_fields(message):
        if number == 1 and kind == _FIXED64:
            moment = struct.unpack("<d", content)[0]
        elif number == 2 and kind == _VARINT:  # noqa: PLR2004 - field numbers are listed above
            step = content
        elif number == 5 and kind == _BYTES:  # noqa: PLR2004 - see above
            values.update(_read_summary(content))
    return moment, step, values


def _read_summary(message: bytes) -> Dict[str, float]:
    values = {}
    for number, kind, content in _read_fields(message):
        if number == 1 and kind == _BYTES:
            tag, scalar = _read_value(content)
            if scalar is not None:
                values[tag] = scalar
    return values


def _read_value(message: bytes) -> Tuple[str, Optional[float]]:
    tag = ""
    scalar: Optional[float] = None
    for number, kind, content in _read_fields(message):
        if number == 1 and kind == _BYTES:
            tag = content.decode("utf-8", "replace")
        elif number == 2 and kind == _FIXED32:  # noqa: PLR2004 - see above
            scalar = struct.unpack("<f", content)[0]
        elif number == 8 and kind == _BYTES:  # noqa: PLR2004 - see above
            scalar = _find_tensor_scalar(content)
    return tag, scalar


def _find_tensor_scalar(message: bytes) -> Optional[float]:
    """Give a tensor's only number. TensorProto: dtype = 1, content = 4, floats = 5, doubles = 6."""
    dtype = 0
    numbers: List[float] = []
    for number, kind, content in _read_fields(message):
        if number == 1 and kind == _VARINT:
            dtype = content
        elif number in (4, 5, 6) and kind != _VARINT:
            letter, size = ("d", 8) if number == 6 or (number == 4 and dtype == _DT_DOUBLE) else ("f", 4)  # noqa: PLR2004 - see above
            if dtype in (_DT_FLOAT, _DT_DOUBLE) and len(content) == size:
                numbers.append(struct.unpack("<" + letter, content)[0])
    return numbers[0] if len(numbers) == 1 else None


def _read_fields(message: bytes) -> Iterator[Tuple[int, int, Any]]:
    """Yield (field number, wire type, content) of a message. Raises IndexError or ValueError when it is cut."""
    at = 0
    while at < len(message):
        key, at = _read_varint(message, at)
        kind = key & 7
        if kind == _VARINT:
            number, at = _read_varint(message, at)
            yield key >> 3, kind, number
            continue
        size = {_FIXED64: 8, _FIXED32: 4}.get(kind)
        if kind == _BYTES:
            size, at = _read_varint(message, at)
        if size is None or at + size > len(message):
            raise ValueError(f"field {key >> 3} has wire type {kind} or is cut")
        yield key >> 3, kind, message[at : at + size]
        at += size


def _read_varint(message: bytes, at: int) -> Tuple[int, int]:
    value, shift = 0, 0
    while shift < _VARINT_BITS:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:  # noqa: PLR2004 - the highest bit says that more follows
            return value, at
    raise ValueError("a number is longer than 64 bits")
