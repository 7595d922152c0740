"""Searches a log: bounded work a request, in bounded memory, over what the lines show and not over their raw bytes.

A text is searched for as it stands, in any case: a pattern could take forever, so there are none. Most lines are told
apart by their bytes; only one that may hold the text, or is shown otherwise than it was written, is rendered.
"""

import asyncio
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from starforge.logtext.decoding import decode
from starforge.logtext.levels import Level, find_level, take_rank
from starforge.logtext.records import build_record
from starforge.logtext.render import render_record
from starforge_console.web.deps import LogReader

SEARCHED_BYTES: Final = 32 << 20
"""So much is looked through for one request, at most."""
ODD_COSTS: Final = 4
"""Where some lines are shown otherwise than they were written, all take so many times longer to be told apart."""
LOOK_COSTS: Final = 256
"""A line that has to be rendered counts for so many bytes beside its own, however short it is."""
_PIECE_BYTES: Final = 1 << 20
_SLICE_BYTES: Final = 128 << 10
"""How much has cost too much is asked after so many bytes."""
_LINE_BYTES: Final = 8 << 20
"""What is longer without a line's end is searched in pieces of this size."""
_BEFORE: Final = 120
_SNIPPET: Final = 400
_ODD: Final = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")
_SGR: Final = re.compile(rb"\x1b\[[0-9;:]*m")
_SPEAKS: Final = (
    b"error",
    b"exception",
    b"traceback",
    b"fatal",
    b"critical",
    b"panic",
    b"segmentation",
    b"killed",
    b"[e",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is searched for: all that is given must hold of a line. `errors`: it speaks of an error.

    A text that goes over a line's end is in no line.
    """

    text: str = ""
    rank: int | None = None
    errors: bool = False


@dataclass(frozen=True, slots=True)
class Hit:
    """A line that was found: a part of what it shows, and where in it the text lies."""

    number: int
    offset: int
    text: str
    begin: int
    end: int
    level: Level


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found, and how far it went; `next_offset` None: to the end of what is here."""

    hits: tuple[Hit, ...]
    next_offset: int | None
    searched_from: int
    searched_to: int
    received_to: int
    ended: bool


async def search_log(logs: LogReader, attempt: str, wanted: Wanted, from_byte: int, most_hits: int) -> Found:
    """The next lines of the attempt's log that are wanted, from the line on that begins at `from_byte`."""
    scan = _Scan(wanted, most_hits, await logs.number_of(attempt, from_byte), from_byte)
    at, cost = from_byte, 0
    while True:
        part = await logs.read_part(attempt, at, _PIECE_BYTES)
        at_end = part.next_offset >= part.received_to
        if part.gap is not None:
            await asyncio.to_thread(scan.feed, b"", is_last=True)
            scan.number, scan.offset = await logs.number_of(attempt, part.next_offset), part.next_offset
        elif part.content or at_end:
            is_last = at_end and part.ended
            cost += await asyncio.to_thread(scan.feed_slowly, part.content, SEARCHED_BYTES - cost, is_last=is_last)
        at = part.next_offset
        if scan.stopped_at is not None or at_end or cost >= SEARCHED_BYTES:
            break
    going_on = scan.stopped_at if scan.stopped_at is not None else None if at_end else scan.offset
    going_on = None if going_on is not None and going_on >= part.received_to else going_on
    searched_to = scan.offset if scan.stopped_at is None else scan.stopped_at
    return Found(tuple(scan.hits), going_on, from_byte, searched_to, part.received_to, part.ended)


@dataclass(slots=True)
class _Scan:
    """A search in progress: `rest`, which begins at `offset` in line `number`, has no end yet."""

    wanted: Wanted
    most_hits: int
    number: int
    offset: int
    rest: bytes = b""
    hits: list[Hit] = field(default_factory=list)
    stopped_at: int | None = None

    def feed_slowly(self, content: bytes, most: int, *, is_last: bool) -> int:
        """`feed` in slices, until it is through or has cost about `most`; then it stops where the next line begins."""
        cost = 0
        for begin in range(0, len(content) or 1, _SLICE_BYTES):
            end = begin + _SLICE_BYTES
            cost += self.feed(content[begin:end], is_last=is_last and end >= len(content))
            if self.stopped_at is not None or end >= len(content):
                break
            if cost >= most:
                self.stopped_at = self.offset
                break
        return cost

    def feed(self, content: bytes, *, is_last: bool) -> int:
        """Look through the lines that end in `content`, or all of it if it `is_last`; gives the cost, in bytes."""
        block = self.rest + content
        cut = len(block) if is_last or len(block) > _LINE_BYTES else block.rfind(b"\n") + 1
        block, self.rest = block[:cut], block[cut:]
        is_plain = _is_plain(block)
        counted, number, looks = 0, self.number, 0
        for begin, end in self._list_candidates(block, is_plain=is_plain):
            number, counted = number + block.count(b"\n", counted, begin), begin
            hit, looks = _look(block[begin:end], (number, self.offset + begin), self.wanted), looks + 1
            if hit is None:
                continue
            self.hits.append(hit)
            if len(self.hits) == self.most_hits:
                self.stopped_at = self.offset + min(end + 1, len(block))
                break
        self.number += block.count(b"\n")
        self.offset += len(block)
        return len(content) * (1 if is_plain else ODD_COSTS) + looks * LOOK_COSTS

    def _list_candidates(self, block: bytes, *, is_plain: bool) -> Iterable[tuple[int, int]]:
        """Where lines begin and end that may be wanted."""
        wanted = self.wanted
        if "\n" in wanted.text:
            return ()
        if not wanted.text:
            return _list_speaking(block) if wanted.rank is None else _list_of_rank(block, wanted.rank)
        needle = wanted.text.encode().lower()
        has_cases = any(sign > "\x7f" and sign.lower() != sign.upper() for sign in wanted.text)
        if is_plain and not has_cases:
            return _list_holding(block, needle)
        return _list_doubtful(block, needle, has_cases=has_cases)


def _is_plain(block: bytes) -> bool:
    """Whether lines show what was written: nothing that acts, and text in UTF-8."""
    if _ODD.search(block):
        return False
    if block.isascii():
        return True
    try:
        block.decode()
    except UnicodeDecodeError:
        return False
    return True


def _list_holding(block: bytes, needle: bytes) -> Iterator[tuple[int, int]]:
    low = block.lower()
    at = low.find(needle)
    while at >= 0:
        begin, end = low.rfind(b"\n", 0, at) + 1, _end_of(low, at)
        yield begin, end
        at = low.find(needle, end)


def _list_speaking(block: bytes) -> list[tuple[int, int]]:
    """Lines that hold a word of errors: many searches for one word each are faster than one for many."""
    return sorted({place for word in _SPEAKS for place in _list_holding(block, word)})


def _list_of_rank(block: bytes, rank: int) -> Iterator[tuple[int, int]]:
    pattern = re.compile(rb"\[(?:rank|default)%d\]:|^%d: " % (rank, rank), re.MULTILINE)
    found = pattern.search(block)
    while found:
        begin, end = block.rfind(b"\n", 0, found.start()) + 1, _end_of(block, found.start())
        yield begin, end
        found = pattern.search(block, end + 1)


def _list_doubtful(block: bytes, needle: bytes, *, has_cases: bool) -> Iterator[tuple[int, int]]:
    """Lines that hold the needle, or are shown otherwise than they were written."""
    begin = 0
    for line in block.split(b"\n"):
        shown = _SGR.sub(b"", line) if b"\x1b" in line else line
        if needle in shown.lower() or (has_cases and not shown.isascii()) or not _is_plain(shown.rstrip(b"\r")):
            yield begin, begin + len(line)
        begin += len(line) + 1


def _end_of(block: bytes, at: int) -> int:
    end = block.find(b"\n", at)
    return len(block) if end < 0 else end


def _look(raw: bytes, place: tuple[int, int], wanted: Wanted) -> Hit | None:
    """The hit that a line is; None when it is none."""
    record = build_record(raw, *place)
    text = render_record(record).text
    if wanted.rank is not None:
        taken = take_rank(text, wanted.rank)
        if taken is None:
            return None
        text = taken
    level = find_level(text)
    if wanted.errors and level != "err":
        return None
    at = text.lower().find(wanted.text.lower())
    if at < 0 and record.omitted_bytes:
        text = _cut_around(raw, wanted.text)
        at = text.lower().find(wanted.text.lower())
    if at < 0:
        return None
    begin = max(0, at - _BEFORE)
    shown = text[begin : begin + max(_SNIPPET, _BEFORE + len(wanted.text))]
    return Hit(*place, shown, at - begin, at - begin + len(wanted.text), level)


def _cut_around(raw: bytes, text: str) -> str:
    """What stands around the text in a line that is too long to be shown whole; nothing when it is not in it."""
    at = raw.lower().find(text.encode().lower())
    if at < 0:
        return ""
    begin = max(0, at - _BEFORE)
    part = raw[begin : at + _SNIPPET]
    return render_record(build_record(decode(part, cut_begin=True, cut_end=True).encode(), 1, 0)).text
