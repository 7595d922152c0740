"""The record of an attempt: append-only streams on the attempt's storage, whose file offsets are the truth."""

from __future__ import annotations

import json
import math
import os
import threading
import time
from typing import Any, Callable, Dict, Optional

from starforge.contract import capsule as contract
from starforge.runner.masking import Masker
from starforge.runner.plainfiles import open_appendable


class Stream:
    """One file that only grows. Safe from several threads; a record is written whole or counted as lost."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.lost_bytes = 0
        self._lock = threading.Lock()
        self._fd = open_appendable(path)
        self.size_bytes = os.fstat(self._fd).st_size

    def append(self, chunk: bytes) -> bool:
        """Write the bytes at the end. False when the storage refused them (full, gone): they count in `lost_bytes`.

        A refused write never ends a job; what was written of a torn chunk is cut off again.
        """
        with self._lock:
            done = 0
            try:
                while done < len(chunk):
                    done += os.write(self._fd, chunk[done:])
            except OSError:
                self.lost_bytes += len(chunk)
                self._cut()
                return False
            self.size_bytes += len(chunk)
            return True

    def read(self, offset: int, most_bytes: int) -> bytes:
        """Give bytes of the file that was opened, whatever has its name by now. Raises OSError."""
        return os.pread(self._fd, max(0, min(most_bytes, self.size_bytes - offset)), offset)

    def sync(self) -> None:
        """Bring the bytes to the disk, as far as the storage can."""
        try:
            os.fsync(self._fd)
        except OSError:
            return  # the record is then as safe as the storage makes it; there is nothing else to do about it

    def _cut(self) -> None:
        try:
            os.ftruncate(self._fd, self.size_bytes)
        except OSError:
            self.size_bytes = os.fstat(self._fd).st_size


class Spool:
    """The streams log, metrics and events of one node. Every text is masked before it is written."""

    def __init__(self, directory: str, patterns: "list[bytes]", on_append: Optional[Callable[[], None]] = None) -> None:
        os.makedirs(directory, exist_ok=True)
        self.directory = directory
        self.streams: Dict[str, Stream] = {
            name: Stream(os.path.join(directory, file)) for name, file in contract.SPOOL_FILES.items()
        }
        self.on_append = on_append or _nothing
        self._patterns = patterns
        self._declared_lost_bytes = 0

    def log(self, masked: bytes) -> None:
        """Append output that the caller has masked. A gap is declared as an event as soon as there is room again."""
        stream = self.streams[contract.STREAM_LOG]
        if stream.append(masked) and stream.lost_bytes > self._declared_lost_bytes:
            lost, self._declared_lost_bytes = stream.lost_bytes - self._declared_lost_bytes, stream.lost_bytes
            at = stream.size_bytes - len(masked)
            self.event(
                "note", code="log_gap", message=f"{lost} bytes of log were lost: the storage refused them", offset=at
            )
        self.on_append()

    def load_log_end(self, most_bytes: int) -> bytes:
        """Read the end of the log, masked once more: the job may have written to the file itself. Raises OSError."""
        stream = self.streams[contract.STREAM_LOG]
        return self.mask(stream.read(max(0, stream.size_bytes - most_bytes), most_bytes))

    def metrics(self, lines: bytes) -> None:
        """Append whole lines of metrics."""
        self.streams[contract.STREAM_METRICS].append(self._mask_lines(lines))
        self.on_append()

    def event(self, kind: str, /, **members: Any) -> None:  # noqa: ANN401 - an event's members are JSON values
        """Append one event with the time of now, unless `time` is among the members."""
        document = {"time": time.time(), "kind": kind}
        document.update(members)
        line = json.dumps(build_finite(document), separators=(",", ":"), ensure_ascii=True) + "\n"
        self.streams[contract.STREAM_EVENTS].append(self._mask_lines(line.encode("ascii")))
        self.on_append()

    def sync(self) -> None:
        """Bring all streams to the disk."""
        for stream in self.streams.values():
            stream.sync()

    def offsets(self) -> Dict[str, int]:
        """Give each stream's length in bytes."""
        return {name: stream.size_bytes for name, stream in self.streams.items()}

    def mask(self, text: bytes) -> bytes:
        """Give a whole text without the run's secrets. What is to be cut is masked first, and cut then."""
        masker = Masker(self._patterns)
        return masker.feed(text) + masker.flush()

    def _mask_lines(self, lines: bytes) -> bytes:
        """Mask what documents say and not how they are written: a secret may be `metrics`, or a few digits."""
        if self.mask(lines) == lines:
            return lines
        return b"".join(map(self._mask_line, lines.splitlines(keepends=True)))

    def _mask_line(self, line: bytes) -> bytes:
        masked = self.mask(line)
        if line == masked:
            return line
        try:
            document = json.loads(line)
            said = {
                name: value if _is_ours(name, value) else self._mask_value(value) for name, value in document.items()
            }
        except (ValueError, AttributeError, RecursionError):
            return masked
        return json.dumps(said, separators=(",", ":")).encode("ascii") + b"\n"

    def _mask_value(self, value: Any) -> Any:  # noqa: ANN401 - any JSON value
        if isinstance(value, str):
            return self.mask(value.encode("utf-8", "surrogatepass")).decode("utf-8", "backslashreplace")
        if isinstance(value, list):
            return [self._mask_value(one) for one in value]
        if isinstance(value, dict):
            return {self._mask_value(name): self._mask_value(one) for name, one in value.items()}
        text = json.dumps(value)
        masked = self._mask_value(text)
        return value if masked == text else masked


def _is_ours(name: str, value: Any) -> bool:  # noqa: ANN401 - any JSON value
    """Whether the runner itself chose what the member says, or checked that it is a number: kind, time and step."""
    return name == "kind" or (isinstance(value, (int, float)) and name in ("time", "step"))


def build_finite(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Copy a JSON value as every reader takes it.

    NaN and infinities become the words "nan", "inf" and "-inf", halves of surrogate pairs become escapes.
    """
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, dict):
        return {build_finite(str(key)): build_finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [build_finite(item) for item in value]
    return value


def _nothing() -> None:
    """Nobody listens."""
