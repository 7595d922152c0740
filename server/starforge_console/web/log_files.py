"""A log as a file: the bytes that are here one after the other, a position in it, and what is lost while it is sent."""

from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from starforge_console.web.deps import LogReader

PIECE_BYTES: Final = 1 << 20

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class LogFile:
    """What a raw file holds: all bytes that are here, in order; the ranges between them are `missing`."""

    received_to: int
    missing: tuple[Range, ...]

    @property
    def size_bytes(self) -> int:
        """How long the file is."""
        return self.received_to - sum(end - begin for begin, end in self.missing)

    @property
    def tag(self) -> str:
        """What changes when the file's bytes do; one that has grown is another one."""
        return f'"{self.received_to:x}-{self.size_bytes:x}"'

    def find_offset(self, position: int) -> int:
        """Where in the log the byte at `position` of the file stands."""
        offset = position
        for begin, end in self.missing:
            if begin > offset:
                break
            offset += end - begin
        return offset

    def count_bytes(self, gap: Range) -> int:
        """How many of the file's bytes lie in a range of the log."""
        begin, end = gap[0], min(gap[1], self.received_to)
        return max(0, end - begin) - sum(_overlap(one, (begin, end)) for one in self.missing)


async def measure_file(logs: LogReader, attempt: str) -> LogFile:
    """What the file of the attempt's log holds now."""
    received_to = (await logs.read_part(attempt, 0, 0)).received_to
    missing = [(begin, min(end, received_to)) for begin, end in await logs.find_missing(attempt) if begin < received_to]
    return LogFile(received_to, tuple(missing))


async def iterate_file(logs: LogReader, attempt: str, file: LogFile, part: Range) -> AsyncIterator[bytes]:
    """So many bytes of the file from a position on, as `part` says, in pieces of bounded size.

    Every byte stands where the file had it when it was measured: what was lost since has a marker of its length.
    """
    position, size_bytes = part
    offset = file.find_offset(position)
    while size_bytes > 0:
        read = await logs.read_part(attempt, offset, min(PIECE_BYTES, size_bytes))
        if read.gap is None and not read.content:
            return
        pieces: Iterable[bytes] = (read.content,)
        if read.gap is not None:
            pieces = _mark(read.gap, min(file.count_bytes(read.gap), size_bytes))
        for piece in pieces:
            size_bytes -= len(piece)
            yield piece
        offset = read.next_offset


def _overlap(one: Range, other: Range) -> int:
    return max(0, min(one[1], other[1]) - max(one[0], other[0]))


def _mark(gap: Range, size_bytes: int) -> Iterator[bytes]:
    """`size_bytes` that stand for what is lost."""
    piece = f"\n[starforge: bytes {gap[0]} to {gap[1]} of this log are lost]\n".encode()[:size_bytes]
    while size_bytes > 0:
        piece = piece.ljust(min(size_bytes, PIECE_BYTES))
        yield piece
        size_bytes -= len(piece)
        piece = b""
