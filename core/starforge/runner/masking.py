"""Hides the run's secrets in a stream of bytes before the first of them touches a disk.

A secret is replaced by as many `*`, so that offsets stay true. Secrets shorter than MASKED_BYTES are not masked.

Only bytes that are equal to the beginning of a secret are ever held, so ordinary output is not delayed. They are held
until the next bytes decide, or until nothing came for a tenth of a second: a program that writes a secret in pieces
is masked too, while a prompt that ends like a secret begins appears as if at once.
"""

from __future__ import annotations

import json
from typing import Dict, Iterable, Iterator, List, Set

from starforge.contract.bounds import MASKED_BYTES

_FEW = 64  # of so many patterns each is looked for by itself; of more the places are found by their first bytes
_HEAD_BYTES = 8  # a place where a secret may begin is found by so many bytes of it, and only then compared whole


def build_patterns(values: Iterable[bytes]) -> List[bytes]:
    """List what must not be seen: each value, stripped or not, its longer lines, and how JSON and Python quote them."""
    patterns: Set[bytes] = set()
    for value in values:
        parts = {value.strip(), *(line.strip() for line in value.splitlines())}
        patterns.update(shape for part in parts for shape in _list_written(part))
        patterns.add(value)
    return sorted(pattern for pattern in patterns if len(pattern) >= MASKED_BYTES)


def _list_written(part: bytes) -> Iterator[bytes]:
    """Every form in which a program quotes the text; one form for what needs no quoting."""
    yield part
    text = part.decode("utf-8", "surrogateescape")
    if text.isascii() and text.isprintable() and not any(sign in text for sign in "\\\"'"):
        return
    for written in (json.dumps(text), json.dumps(text, ensure_ascii=False), repr(text), ascii(text), repr(part)[1:]):
        yield written[1:-1].encode("utf-8", "surrogateescape")


class Masker:
    """Masks one stream, chunk by chunk, also where a secret lies across chunks.

    `feed` and `flush` together give as many bytes as were fed. A suffix that may begin a secret is held back until the
    next chunk decides or `flush` is called; a secret whose beginning was flushed is masked from there on.
    """

    def __init__(self, patterns: Iterable[bytes]) -> None:
        self._patterns = [pattern for pattern in patterns if pattern]
        self._longest = max((len(pattern) for pattern in self._patterns), default=0)
        self._raw = b""  # the stream's last bytes as they came: what a secret may still begin in
        self._shown = bytearray()  # the same bytes, masked
        self._emitted = 0  # how many of them were given out
        self._begun = 0  # how many of them some secret begins with
        self._by_head: Dict[bytes, List[bytes]] = {}
        for pattern in self._patterns:
            self._by_head.setdefault(pattern[:_HEAD_BYTES], []).append(pattern)
        self._beginnings = {one[:size] for one in self._patterns for size in range(1, min(len(one), _HEAD_BYTES))}

    @property
    def held_bytes(self) -> int:
        """How many bytes wait for the next chunk."""
        return len(self._raw) - self._emitted

    def feed(self, chunk: bytes) -> bytes:
        """Take the next bytes of the stream; give those that are decided."""
        if not self._patterns:
            return chunk
        raw = self._raw + chunk
        shown = self._shown + chunk
        if len(self._patterns) > _FEW:
            self._cover_any(raw, shown)
        else:
            for pattern in self._patterns:
                # What lies before the chunk as a whole was covered when it came.
                _cover(raw, pattern, shown, max(0, len(self._raw) - len(pattern) + 1))
        self._begun = self._undecided_bytes(raw)
        ready = max(len(raw) - self._begun, self._emitted)
        given = bytes(shown[self._emitted : ready])
        forget = max(0, min(len(raw) - self._longest + 1, ready))
        self._raw, self._shown, self._emitted = raw[forget:], shown[forget:], ready - forget
        return given

    def flush(self) -> bytes:
        """Give what is held: nothing more came in time."""
        given = bytes(self._shown[self._emitted :])
        self._emitted = len(self._raw)
        return given

    def _cover_any(self, raw: bytes, shown: bytearray) -> None:
        """Cover every pattern in turn of place: a value of thousands of lines is thousands of patterns."""
        # Whatever began before the chunk and ends in it was begun when the chunk came.
        for at in range(len(self._raw) - self._begun, len(raw) - _HEAD_BYTES + 1):
            for pattern in self._by_head.get(raw[at : at + _HEAD_BYTES], ()):
                if raw.startswith(pattern, at):
                    shown[at : at + len(pattern)] = b"*" * len(pattern)

    def _undecided_bytes(self, raw: bytes) -> int:
        """Count the bytes at the end that some secret begins with. Whatever does now has begun so before."""
        first = max(len(self._raw) - self._begun, len(raw) - self._longest + 1, 0)
        for at in range(first, len(raw) - _HEAD_BYTES + 1):
            for pattern in self._by_head.get(raw[at : at + _HEAD_BYTES], ()):
                if len(pattern) > len(raw) - at and pattern.startswith(raw[at:]):
                    return len(raw) - at
        sizes = range(min(_HEAD_BYTES - 1, len(raw)), 0, -1)
        return next((size for size in sizes if raw[-size:] in self._beginnings), 0)


def _cover(raw: bytes, pattern: bytes, shown: bytearray, start: int) -> None:
    at = raw.find(pattern, start)
    while at >= 0:
        shown[at : at + len(pattern)] = b"*" * len(pattern)
        at = raw.find(pattern, at + 1)
