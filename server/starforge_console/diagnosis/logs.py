"""Reads the beginning and the end of an attempt's log as a window for a diagnosis."""

from typing import Final, Protocol

from starforge.contract.ids import AttemptId
from starforge.diagnosis.window import HEAD_BYTES, TAIL_BYTES, Chunk, Window, build_window, cut_to_line

_READ_BYTES: Final = 1 << 20


class Part(Protocol):
    """Bytes of a log that follow one another; none where a range of it is missing."""

    @property
    def content(self) -> bytes:
        """The bytes from the asked offset on."""

    @property
    def next_offset(self) -> int:
        """Where reading goes on."""

    @property
    def received_to(self) -> int:
        """How many bytes of the log there are."""


class PartReader(Protocol):
    """The logs that ingest has received."""

    async def read_part(self, attempt: str, from_byte: int, limit_bytes: int) -> Part:
        """At most `limit_bytes` of the attempt's log from `from_byte` on, or what is missing there."""

    async def number_of(self, attempt: str, offset: int) -> int:
        """The number of the line that holds the byte at `offset`."""


async def load_window(logs: PartReader, attempt: AttemptId) -> Window:
    """The window of the attempt's log, with line numbers and offsets as its page has them."""
    size_bytes = (await logs.read_part(attempt, 0, 1)).received_to
    tail_from = max(HEAD_BYTES, size_bytes - TAIL_BYTES)
    if size_bytes <= HEAD_BYTES + TAIL_BYTES:
        return build_window(await _load_chunks(logs, attempt, 0, size_bytes))
    head = await _load_chunks(logs, attempt, 0, HEAD_BYTES)
    return build_window([*head, *await _load_chunks(logs, attempt, tail_from, size_bytes)])


async def _load_chunks(logs: PartReader, attempt: AttemptId, begin: int, end: int) -> list[Chunk]:
    """What is here of bytes `begin` to `end`; each piece that does not begin with a line is cut to one."""
    chunks: list[Chunk] = []
    at, held, held_from = begin, bytearray(), begin
    while at < end:
        part = await logs.read_part(attempt, at, min(_READ_BYTES, end - at))
        held += part.content
        if part.next_offset <= at:
            break
        at = part.next_offset
        if not part.content or at >= end:  # a gap, or the end
            if held:
                chunks.append(await _build_chunk(logs, attempt, bytes(held), held_from))
            held, held_from = bytearray(), at
    return chunks


async def _build_chunk(logs: PartReader, attempt: AttemptId, content: bytes, offset: int) -> Chunk:
    if offset == 0:
        return Chunk(content)
    return cut_to_line(content, await logs.number_of(attempt, offset), offset)
