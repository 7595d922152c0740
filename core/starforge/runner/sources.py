"""Reads what the training process reports while it runs, from files on the container's own disk, into the spool."""

from __future__ import annotations

import json
import math
import os
import re
import time
from typing import Any, Dict, List, Optional, Protocol, Set, Tuple

from starforge.contract.bounds import LINE_BYTES
from starforge.contract.capsule import MetricSource
from starforge.runner.packed import NameSets
from starforge.runner.plainfiles import list_files, load_bytes, open_plain, parse_object
from starforge.runner.progress import Progress
from starforge.runner.spool import Spool, build_finite
from starforge.runner.tensorboard import TensorboardSource

_READ_BYTES = 256 << 10
_POLL_S = 5.0
_RESULTS = re.compile(r"results_.*\.json")
_RESULTS_BYTES = 64 << 20
_STEP_KEYS = ("step", "global_step", "current_steps", "_step", "iteration")
_TIME_KEYS = ("time", "timestamp", "_timestamp")
_WRAPPER = "data"  # below which some frameworks put all their numbers: it is no part of their names
_REPORT_KINDS = ("samples", "hparams", "finish", "total_steps", "checkpoint", "note")


class Source(Protocol):
    """Something that is looked at again and again."""

    def poll(self) -> None:
        """Bring what is new into the spool."""


class LineTail:
    """The whole lines that a file has grown by. A file that was replaced or cut is read from its beginning.

    Lines longer than LINE_BYTES are passed over and counted: no more than one line is ever in memory.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.too_long = 0
        self._inode: Optional[int] = None
        self._offset = 0
        self._rest = b""
        self._is_skipping = False

    def read_lines(self, deadline: float = math.inf) -> List[bytes]:
        """Give the next whole lines, without their ends; none at the end of the file, or past the deadline (monotonic).

        Raises OSError for what is no plain file; a missing one has no lines.
        """
        while time.monotonic() < deadline:
            chunk = self._read_chunk()
            if not chunk:
                return []
            lines = self._split(chunk)
            if lines:
                return lines
        return []

    def _read_chunk(self) -> bytes:
        try:
            fd = open_plain(self.path)
        except FileNotFoundError:
            return b""
        try:
            found = os.fstat(fd)
            if found.st_ino != self._inode or found.st_size < self._offset:
                self._inode, self._offset, self._rest, self._is_skipping = found.st_ino, 0, b"", False
            chunk = os.pread(fd, _READ_BYTES, self._offset)
        finally:
            os.close(fd)
        self._offset += len(chunk)
        return chunk

    def _split(self, chunk: bytes) -> List[bytes]:
        if self._is_skipping:
            _, end, tail = chunk.partition(b"\n")
            if not end:
                return []
            self._is_skipping, chunk = False, tail
        lines = (self._rest + chunk).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) >= LINE_BYTES:
            self._rest, self._is_skipping = b"", True
            self.too_long += 1
        return lines


class ReportSource:
    """The file that starforge.report appends to: metrics go on as they are, everything else becomes an event."""

    def __init__(self, path: str, spool: Spool, progress: Progress) -> None:
        self._tail = LineTail(path)
        self._sets = NameSets()
        self.spool = spool
        self.progress = progress
        self._complained = False

    def poll(self) -> None:
        """Bring every whole line into the spool, as far as a few seconds go."""
        deadline = time.monotonic() + _POLL_S
        lines = self._tail.read_lines(deadline)
        while lines:
            metrics = b"".join(map(self._take, lines))
            if metrics:
                self.spool.metrics(metrics)
            lines = self._tail.read_lines(deadline)
        if self._tail.too_long and not self._complained:
            self._complain(f"longer than {LINE_BYTES} bytes".encode())

    def _take(self, line: bytes) -> bytes:
        """Give what the line says of metrics as a line with its end; other lines are dealt with here."""
        document = _find_object(line)
        if document is not None and _is_int(document.get("step")) and ("values" in document or "packed" in document):
            self.progress.note_step(document["step"])
            return self._take_metrics(document, line)
        kind = document.get("kind") if document is not None else None
        if document is None or kind not in _REPORT_KINDS:
            self._complain(line)
            return b""
        if kind == "finish":
            self.progress.finished = True
        if kind == "total_steps" and _is_int(document.get("total_steps")):
            self.progress.total_steps = document["total_steps"]
        try:
            self.spool.event(document.pop("kind"), **document)
        except RecursionError:
            self._complain(line)
        return b""

    def _take_metrics(self, document: Dict[str, Any], line: bytes) -> bytes:
        try:
            if "packed" in document:
                return self._sets.unpack(document) + b"\n"
        except ValueError:
            self._complain(line)
            return b""
        if not isinstance(document["values"], dict):
            self._complain(line)
            return b""
        self._sets.learn(document)
        if b"NaN" in line or b"Infinity" in line:  # by hand of another program: that is no JSON
            return json.dumps(build_finite(document), separators=(",", ":")).encode("ascii") + b"\n"
        return line + b"\n"

    def _complain(self, line: bytes) -> None:
        if not self._complained:
            self._complained = True
            shown = self.spool.mask(line)[:80].decode("utf-8", "replace")
            self.spool.event("note", code="report_line", message=f"a line of the report file is no report: {shown!r}")


class JsonlSource:
    """A file of JSON objects, one a line, that the framework itself writes: its numbers are metrics."""

    def __init__(self, path: str, spool: Spool, progress: Progress) -> None:
        self._tail = LineTail(path)
        self._spool = spool
        self._progress = progress
        self._complained = False

    def poll(self) -> None:
        """Bring the numbers of the new lines into the spool. A line without a step is not guessed at."""
        deadline = time.monotonic() + _POLL_S
        lines = self._tail.read_lines(deadline)
        while lines:
            records = [record for record in map(self._find_record, lines) if record]
            if records:
                self._spool.metrics(("\n".join(records) + "\n").encode("ascii"))
            lines = self._tail.read_lines(deadline)
        if self._tail.too_long:
            self._complain(f"longer than {LINE_BYTES} bytes".encode())

    def _find_record(self, line: bytes) -> Optional[str]:
        document = _find_object(line) if line.strip() else {}
        record = build_metrics(document) if document else None
        if record is not None:
            self._progress.note_step(record["step"])
            return json.dumps(record, separators=(",", ":"))
        if document is None or document:
            self._complain(line)
        return None

    def _complain(self, line: bytes) -> None:
        if not self._complained:
            self._complained = True
            shown = self._spool.mask(line)[:80].decode("utf-8", "replace")
            text = f"{self._tail.path}: a line has no step or no number, such lines are left out: {shown!r}"
            self._spool.event("note", code="metrics_line", message=text)


class LmEvalSource:
    """The results that lm-evaluation-harness leaves at its end: each score of each task is a metric, at step 0."""

    def __init__(self, directory: str, spool: Spool, progress: Progress) -> None:
        self._directory = directory
        self._spool = spool
        self._progress = progress
        self._seen: Set[Tuple[str, int]] = set()

    def poll(self) -> None:
        """Bring the scores of new results into the spool. What cannot be read yet is looked at again."""
        for path, size in self._list_results():
            if (path, size) not in self._seen:
                self._seen.add((path, size))
                self._read(path)

    def _list_results(self) -> List[Tuple[str, int]]:
        listing = list_files(self._directory, deadline=time.monotonic() + _POLL_S)
        rows = [(name, size) for name, size, _ in listing.files if _RESULTS.fullmatch(os.path.basename(name))]
        return [(os.path.join(self._directory, name), size) for name, size in rows]

    def _read(self, path: str) -> None:
        try:
            scores = find_scores(parse_object(load_bytes(path, _RESULTS_BYTES)))
        except ValueError:
            return  # being written: it is read when it has grown
        except OSError as error:
            text = f"{path} cannot be read: {error.strerror}; its scores are no metrics"
            self._spool.event("note", code="results_unread", message=text)
            return
        if scores:
            self._progress.note_step(0)
            record = {"time": time.time(), "step": 0, "values": scores}
            self._spool.metrics(json.dumps(record, separators=(",", ":")).encode("ascii") + b"\n")


def find_scores(document: Dict[str, Any]) -> Dict[str, Any]:
    """Find the scores in a results document: `TASK/METRIC`, with the filter behind a comma unless it is `none`."""
    results = document.get("results")
    scores = {}
    for task, row in results.items() if isinstance(results, dict) else ():
        for key, number in row.items() if isinstance(row, dict) else ():
            name, comma, kind = key.rpartition(",")
            if comma and isinstance(number, (int, float)) and not isinstance(number, bool):
                scores[f"{task}/{name if kind == 'none' else key}"] = build_finite(number)
    return scores


def build_sources(sources: Tuple[MetricSource, ...], work: str, spool: Spool, progress: Progress) -> List[Source]:
    """Build what is to be polled besides the report file."""
    built: List[Source] = []
    for source in sources:
        path = os.path.join(work, source.path or "")
        if source.kind == "jsonl":
            built.append(JsonlSource(path, spool, progress))
        if source.kind == "tensorboard":
            built.append(TensorboardSource(path, spool, progress))
        if source.kind == "lm_eval":
            built.append(LmEvalSource(path, spool, progress))
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
                values[f"{key}/{inner}" if inner and key != _WRAPPER else inner or key] = build_finite(number)
    return {"time": moment, "step": step, "values": values} if step is not None and values else None


def _find_object(line: bytes) -> Optional[Dict[str, Any]]:
    try:
        return parse_object(line)
    except ValueError:
        return None


def _is_int(value: Any) -> bool:  # noqa: ANN401 - parsed JSON
    return isinstance(value, int) and not isinstance(value, bool)
