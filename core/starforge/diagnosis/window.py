"""The part of a log that is looked at: a bounded beginning and a bounded end, with the numbers of their lines."""

from collections.abc import Iterable, Iterator, Sequence
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
class Chunk:
    """Bytes that follow one another, from the beginning of line `number` at byte `offset` on."""

    content: bytes
    number: int = 1
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Window:
    """Lines of a log in order. Between `lines[gap - 1]` and `lines[gap]` lines were passed over; None: none were."""

    lines: tuple[RawLine, ...]
    gap: int | None = None


def build_window(chunks: Sequence[Chunk]) -> Window:
    """The window of a log of which only `chunks` are there, in order."""
    parts = [tuple(_split(chunk)) for chunk in chunks]
    passed = sum(map(len, parts[:-1])) if len(parts) > 1 else None
    return Window(tuple(line for part in parts for line in part), passed)


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
        return build_window([Chunk(bytes(head + tail))])
    before_bytes = len(head) + passed_bytes
    before_lines = head.count(b"\n") + passed_lines
    first = Chunk(bytes(head[: head.rfind(b"\n") + 1]))
    return build_window([first, cut_to_line(bytes(tail), before_lines + 1, before_bytes)])


def cut_to_line(content: bytes, number: int, offset: int) -> Chunk:
    """`content`, which begins somewhere in line `number`, without the rest of that line; whole where it is one line."""
    cut = content.find(b"\n") + 1
    return Chunk(content[cut:], number + (1 if cut else 0), offset + cut)


def iterate_pieces(content: bytes) -> Iterator[bytes]:
    """`content` in pieces of bounded length."""
    return (content[at : at + PIECE_BYTES] for at in range(0, len(content), PIECE_BYTES))


def _split(chunk: Chunk) -> Iterator[RawLine]:
    at, number, content = 0, chunk.number, chunk.content
    while at < len(content):
        end = content.find(b"\n", at)
        end = len(content) if end < 0 else end
        yield RawLine(number, chunk.offset + at, _shorten(content, at, end))
        number, at = number + 1, end + 1


def _shorten(content: bytes, at: int, end: int) -> bytes:
    if end - at <= 2 * LINE_BYTES:
        return content[at:end]
    return content[at : at + LINE_BYTES] + b" ... " + content[end - LINE_BYTES : end]
