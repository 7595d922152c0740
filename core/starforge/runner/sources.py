"""Reads what the training process reports while it runs, from files on the container's own disk, into the spool."""

from __future__ import annotations

import json
import os
import time
from typing import Any, Dict, List, Optional, Protocol, Tuple

from starforge.contract.capsule import MetricSource
from starforge.runner.progress import Progress
from starforge.runner.spool import Spool, build_finite

_READ_BYTES = 4 << 20
_LINE_BYTES = 8 << 20
_STEP_KEYS = ("step", "global_step", "current_steps", "_step", "iteration")
_TIME_KEYS = ("time", "timestamp", "_timestamp")
_REPORT_KINDS = ("samples", "hparams", "finish", "total_steps", "checkpoint", "note")


class Source(Protocol):
    """Something that is looked at again and again."""

    def poll(self) -> None:
        """Bring what is new into the spool."""


class LineTail:
    """The whole lines that a file has grown by. A file that was replaced or cut is read from its beginning."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._inode: Optional[int] = None
        self._offset = 0
        self._rest = b""

    def read_lines(self) -> List[bytes]:
        """Give the next whole lines, without their ends; at most a few MiB at once; none when the file is missing."""
        try:
            found = os.stat(self.path)
            if found.st_ino != self._inode or found.st_size < self._offset:
                self._inode, self._offset, self._rest = found.st_ino, 0, b""
            if found.st_size == self._offset:
                return []
            with open(self.path, "rb") as file:
                file.seek(self._offset)
                chunk = file.read(_READ_BYTES)
        except OSError:
            return []
        self._offset += len(chunk)
        lines = (self._rest + chunk).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > _LINE_BYTES:
            self._rest = b""  # the rest of a line nobody can mean; what follows its end is read again
        return lines


class ReportSource:
    """The file that starforge.report appends to: metrics go on as they are, everything else becomes an event."""

    def __init__(self, path: str, spool: Spool, progress: Progress) -> None:
        self._tail = LineTail(path)
        self._spool = spool
        self._progress = progress
        self._complained = False

    def poll(self) -> None:
        """Bring every whole line into the spool."""
        lines = self._tail.read_lines()
        while lines:
            metrics = [line for line in lines if self._take(line)]
            if metrics:
                self._spool.metrics(b"\n".join(metrics) + b"\n")
            lines = self._tail.read_lines()

    def _take(self, line: bytes) -> bool:
        """Say whether the line is one of metrics; other lines are dealt with here."""
        document = _find_object(line)
        if document is not None and isinstance(document.get("values"), dict) and _is_int(document.get("step")):
            self._progress.note_step(document["step"])
            return (b"NaN" not in line and b"Infinity" not in line) or self._rewrite(document)
        kind = document.get("kind") if document is not None else None
        if document is None or kind not in _REPORT_KINDS:
            self._complain(line)
            return False
        if kind == "finish":
            self._progress.finished = True
        if kind == "total_steps" and _is_int(document.get("total_steps")):
            self._progress.total_steps = document["total_steps"]
        try:
            self._spool.event(document.pop("kind"), **document)
        except RecursionError:
            self._complain(line)
        return False

    def _rewrite(self, document: Dict[str, Any]) -> bool:
        """Write a line by hand of another program, whose NaN is no JSON; it is dealt with then."""
        self._spool.metrics(json.dumps(build_finite(document), separators=(",", ":")).encode("ascii") + b"\n")
        return False

    def _complain(self, line: bytes) -> None:
        if not self._complained:
            self._complained = True
            shown = line[:80].decode("utf-8", "replace")
            self._spool.event("note", code="report_line", message=f"a line of the report file is no report: {shown!r}")


class JsonlSource:
    """A file of JSON objects, one a line, that the framework itself writes: its numbers are metrics."""

    def __init__(self, path: str, spool: Spool, progress: Progress) -> None:
        self._tail = LineTail(path)
        self._spool = spool
        self._progress = progress
        self._complained = False

    def poll(self) -> None:
        """Bring the numbers of every new line into the spool. A line without a step is not guessed at."""
        records = []
        for line in self._tail.read_lines():
            document = _find_object(line) if line.strip() else {}
            record = build_metrics(document) if document else None
            if record is not None:
                self._progress.note_step(record["step"])
                records.append(json.dumps(record, separators=(",", ":")))
            elif document is None or document:
                self._complain(line)
        if records:
            self._spool.metrics(("\n".join(records) + "\n").encode("ascii"))

    def _complain(self, line: bytes) -> None:
        if not self._complained:
            self._complained = True
            shown = line[:80].decode("utf-8", "replace")
            text = f"{self._tail.path}: a line has no step or no number, such lines are left out: {shown!r}"
            self._spool.event("note", code="metrics_line", message=text)


def build_sources(sources: Tuple[MetricSource, ...], work: str, spool: Spool, progress: Progress) -> List[Source]:
    """Build what is to be polled besides the report file."""
    built: List[Source] = []
    for source in sources:
        path = os.path.join(work, source.path or "")
        if source.kind == "jsonl":
            built.append(JsonlSource(path, spool, progress))
        if source.kind == "tensorboard":
            from starforge.runner.tensorboard import TensorboardSource  # noqa: PLC0415 - few plans need it

            built.append(TensorboardSource(path, spool, progress))
    return built


def build_metrics(document: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    """Turn a framework's own line into a line of metrics; None when it has no step or no number."""
    step = next((document[key] for key in _STEP_KEYS if _is_int(document.get(key))), None)
    moment = next((document[key] for key in _TIME_KEYS if isinstance(document.get(key), (int, float))), time.time())
    values = {}
    for key, item in document.items():
        nested = item.items() if isinstance(item, dict) else [("", item)]
        for inner, number in nested:
            if key not in _STEP_KEYS + _TIME_KEYS and isinstance(number, (int, float)) and not isinstance(number, bool):
                values[f"{key}/{inner}" if inner else key] = build_finite(number)
    return {"time": moment, "step": step, "values": values} if step is not None and values else None


def _find_object(line: bytes) -> Optional[Dict[str, Any]]:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _is_int(value: Any) -> bool:  # noqa: ANN401 - parsed JSON
    return isinstance(value, int) and not isinstance(value, bool)
