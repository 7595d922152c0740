"""Cuts the bytes of a log into records: its lines, each as its last state, in bounded memory however long they are.

A record ends with a line feed and with nothing else, so that everybody counts the same lines. Of what carriage returns
wrote over one another the last state that is not empty is kept, of a very long state the beginning and the end.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

HEAD_BYTES: Final = 12 << 10
TAIL_BYTES: Final = 4 << 10
SHOWN_BYTES: Final = HEAD_BYTES + TAIL_BYTES
"""So much is shown of one line; of a longer one the first HEAD_BYTES and the last TAIL_BYTES."""


@dataclass(frozen=True, slots=True)
class Record:
    """One line of a log, by the bytes that are shown of it.

    Attributes:
        number: The line's number, counted from 1.
        offset: Where the line begins in the log.
        head: What is shown of it, or its beginning where `omitted_bytes` were left out.
        tail: Its end, where something was left out before it.
        omitted_bytes: How much of the last state is in neither.
        is_ended: Whether its end was seen; what has none may go on.

    """

    number: int
    offset: int
    head: bytes
    tail: bytes = b""
    omitted_bytes: int = 0
    is_ended: bool = True


class Records:
    """Takes a log piece by piece; wherever it is cut, the records are the same."""

    def __init__(self, number: int = 1, offset: int = 0) -> None:
        """The first byte that is fed lies at `offset`, in line `number`."""
        self.number = number
        self.offset = offset
        self._size_bytes = 0
        self._line = _Line()

    def feed(self, content: bytes) -> Iterator[Record]:
        """The records that end in `content`; to be read to its end before the next piece is fed."""
        first, *rest = content.split(b"\n")
        self._extend(first)
        if not rest:
            return
        yield self._end()
        *whole, last = rest
        for line in whole:
            if len(line) <= SHOWN_BYTES and b"\r" not in line:
                yield Record(self.number, self.offset, line)
                self.number += 1
                self.offset += len(line) + 1
            else:
                self._extend(line)
                yield self._end()
        self._extend(last)

    def peek(self) -> Record | None:
        """The record that has no end yet, as it stands now; None between two records."""
        return self._build(is_ended=False) if self._size_bytes else None

    def finish(self) -> Record | None:
        """The last record, where the log ended without a line's end. Afterwards this begins anew behind it."""
        record = self.peek()
        self.offset += self._size_bytes
        self._size_bytes, self._line = 0, _Line()
        return record

    def _extend(self, part: bytes) -> None:
        if part:
            self._size_bytes += len(part)
            self._line.write(part)

    def _end(self) -> Record:
        record = self._build(is_ended=True)
        self.number += 1
        self.offset += self._size_bytes + 1
        self._size_bytes, self._line = 0, _Line()
        return record

    def _build(self, *, is_ended: bool) -> Record:
        head, tail, omitted_bytes = self._line.cut()
        return Record(self.number, self.offset, head, tail, omitted_bytes, is_ended)


def build_record(line: bytes, number: int, offset: int) -> Record:
    """The record of a whole line that is given without its end."""
    if len(line) <= SHOWN_BYTES and b"\r" not in line:
        return Record(number, offset, line)
    state = _Line()
    state.write(line)
    return Record(number, offset, *state.cut())


@dataclass(slots=True)
class _State:
    """What stands between two carriage returns: the first bytes, the last ones, and how many there were."""

    first: bytearray = field(default_factory=bytearray)
    last: bytearray = field(default_factory=bytearray)
    size_bytes: int = 0

    def write(self, part: bytes) -> None:
        room_bytes = SHOWN_BYTES - len(self.first)
        self.first += part[:room_bytes]
        self.size_bytes += len(part)
        if len(part) > room_bytes:
            self.last += part[max(room_bytes, len(part) - TAIL_BYTES) :]
            del self.last[:-TAIL_BYTES]

    def cut(self) -> tuple[bytes, bytes, int]:
        if self.size_bytes <= SHOWN_BYTES:
            return bytes(self.first), b"", 0
        tail = (self.first[HEAD_BYTES:] + self.last)[-TAIL_BYTES:]
        return bytes(self.first[:HEAD_BYTES]), bytes(tail), self.size_bytes - SHOWN_BYTES


@dataclass(slots=True)
class _Line:
    """A line so far: the state that is being written, and the one before it, which stays until this one is begun."""

    state: _State = field(default_factory=_State)
    before: _State | None = None

    def write(self, part: bytes) -> None:
        end = part.rfind(b"\r")
        if end < 0:
            self.state.write(part)
            return
        # Only the last state that is not empty counts of those that end here: a flood of them costs one look.
        ended = part[:end].rstrip(b"\r")
        begin = ended.rfind(b"\r") + 1
        if begin:
            self.state = _State()
        self.state.write(ended[begin:])
        if self.state.size_bytes:
            self.before, self.state = self.state, _State()
        self.state.write(part[end + 1 :])

    def cut(self) -> tuple[bytes, bytes, int]:
        shown = self.state if self.state.size_bytes or self.before is None else self.before
        return shown.cut()
