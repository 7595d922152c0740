"""Finds Python's tracebacks in a log, each process's apart: where they begin, what they end with, how they chain."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from starforge.diagnosis.lines import Line

MESSAGE_LINES: Final = 40
"""So many lines after an exception may still belong to what it says."""

_HEADER: Final = "Traceback (most recent call last):"
_CAUSE: Final = "The above exception was the direct cause of the following exception:"
_MEANWHILE: Final = "During handling of the above exception, another exception occurred:"
_LAUNCHERS: Final = re.compile(
    r"(?:[\w.]+\.)?(?:ChildFailedError|CalledProcessError|SystemExit|EngineDeadError|EngineGenerateError"
    r"|ProcessExitedException|ProcessRaisedException|BrokenPipeError|JobSubmissionClientError)\b"
    r"|RuntimeError: Engine (?:core initialization failed|process failed to start)"
    r"|RuntimeError: (?:Worker failed with error|WorkerProc initialization failed|cancelled)"
    r"|RuntimeError: DataLoader worker \(pid\(s\) [\d, ]+\) exited unexpectedly"
    r"|RuntimeError: One or more data processing worker"
    r"|(?:torch\.distributed\.)?DistBackendError: NCCL communicator was aborted"
)
"""Exceptions that only tell that another process failed: none of them is a cause."""
_NAMED: Final = re.compile(r"[A-Za-z_][\w.]*(?:\([\w.]+\))?(?::|$)")


@dataclass(slots=True)
class Traceback:
    """One traceback. `begin`, `error` and `end` are indices of lines: the header, the exception, the line after it.

    `error` is None when the log ends before it. `chain` is shared by those that one exception led to.
    """

    begin: int
    stream: str
    chain: int
    error: int | None = None
    end: int = 0
    is_summary: bool = False


def find_tracebacks(lines: Sequence[Line]) -> list[Traceback]:
    """All tracebacks, in the order of their headers."""
    found: list[Traceback] = []
    open_by_stream: dict[str, Traceback] = {}
    chained_by_stream: dict[str, int] = {}
    for index, line in enumerate(lines):
        current = open_by_stream.get(line.stream)
        if line.text.lstrip(" |+").startswith(_HEADER) or line.text.endswith(_HEADER):
            _close(current, index)
            chain = chained_by_stream.pop(line.stream, index)
            open_by_stream[line.stream] = begun = Traceback(index, line.stream, chain)
            found.append(begun)
        elif line.text.startswith((_CAUSE, _MEANWHILE)):
            _close(current, index)
            last = current or _last_of(found, line.stream)
            if last is not None:
                chained_by_stream[line.stream] = last.chain
            open_by_stream.pop(line.stream, None)
        elif current is not None and not _take(current, index, line):
            del open_by_stream[line.stream]
    for left in open_by_stream.values():
        _close(left, len(lines))
    return found


def _take(current: Traceback, index: int, line: Line) -> bool:
    """Whether the line still belongs to the traceback."""
    if current.error is None:
        if not line.text or line.text[0].isspace() or line.bar:
            return True
        if not _NAMED.match(line.text):  # other words broke in
            return line.text.startswith(("~", "^"))
        current.error = index
        current.is_summary = _LAUNCHERS.match(line.text) is not None
    elif index - current.error > MESSAGE_LINES:
        return False
    current.end = index + 1
    return True


def _close(current: Traceback | None, index: int) -> None:
    if current is not None and current.end == 0:
        current.end = index


def _last_of(found: Sequence[Traceback], stream: str) -> Traceback | None:
    return next((one for one in reversed(found) if one.stream == stream), None)
