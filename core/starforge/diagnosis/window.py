"""The part of a log that is looked at: a bounded beginning and a bounded end, with the numbers of their lines."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

HEAD_BYTES: Final = 256 << 10
TAIL_BYTES: Final = 2 << 20
LINE_BYTES: Final = 16 << 10
"""Of a longer line its beginning and its end are looked at, so much of each."""
PIECE_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class RawLine:
    """A line as it was written, up to its line feed. `number` counts from 1; `offset` is in bytes."""

    number: int
    offset: int
    content: bytes


@dataclass(frozen=True, slots=True)
class Window:
    """Lines of a log in order. Between `lines[gap - 1]` and `lines[gap]` lines were passed over; None: none were."""

    lines: tuple[RawLine, ...]
    gap: int | None = None


def read_window(pieces: Iterable[bytes]) -> Window:
    """The window of a log that comes in pieces. It keeps a few MiB at most, however long the log is."""
    head = bytearray()
    tail = bytearray()
    passed_bytes = passed_lines = 0
    for piece in pieces:
        taken = min(len(piece), HEAD_BYTES - len(head))
        head += piece[:taken]
        tail += memoryview(piece)[taken:]
        if len(tail) > 2 * TAIL_BYTES:
            surplus = len(tail) - TAIL_BYTES
            passed_lines += tail.count(b"\n", 0, surplus)
            passed_bytes += surplus
            del tail[:surplus]
    if passed_bytes == 0:
        return Window(tuple(_split(bytes(head + tail), 1, 0)))
    before_bytes = len(head) + passed_bytes
    before_lines = head.count(b"\n") + passed_lines
    cut = tail.find(b"\n") + 1  # the line that the cut went through is not whole; 0: nothing but one long line
    first = tuple(_split(bytes(head[: head.rfind(b"\n") + 1]), 1, 0))
    rest = tuple(_split(bytes(tail[cut:]), before_lines + 1 + (1 if cut else 0), before_bytes + cut))
    return Window(first + rest, len(first))


def iterate_pieces(content: bytes) -> Iterator[bytes]:
    """`content` in pieces of bounded length."""
    return (content[at : at + PIECE_BYTES] for at in range(0, len(content), PIECE_BYTES))


def _split(content: bytes, number: int, offset: int) -> Iterator[RawLine]:
    at = 0
    while at < len(content):
        end = content.find(b"\n", at)
        end = len(content) if end < 0 else end
        yield RawLine(number, offset + at, _shorten(content, at, end))
        number, at = number + 1, end + 1


def _shorten(content: bytes, at: int, end: int) -> bytes:
    if end - at <= 2 * LINE_BYTES:
        return content[at:end]
    return content[at : at + LINE_BYTES] + b" ... " + content[end - LINE_BYTES : end]
