"""Bodies of ingest: bounded in size also once they are unpacked, in time, and in how many are held at once."""

import asyncio
import contextlib
import zlib
from collections.abc import Iterator
from typing import Final

from starlette.requests import Request

from starforge.errors import Busy, InputError
from starforge_console.errors import TooLarge

IN_FLIGHT_BYTES: Final = 64 << 20
READ_S: Final = 30.0
_GZIP: Final = 31
"""zlib's name for a gzip header with the largest window."""


class Room:
    """How many bytes of bodies may be held at once."""

    def __init__(self, limit_bytes: int = IN_FLIGHT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._held_bytes = 0

    @contextlib.contextmanager
    def hold(self, size_bytes: int) -> Iterator[None]:
        """Have room for `size_bytes` for the time of the block. Raises Busy when there is none."""
        if self._held_bytes + size_bytes > self._limit_bytes:
            raise Busy("ingest is busy", why=f"{self._held_bytes} bytes are being kept", retry_after_s=1.0)
        self._held_bytes += size_bytes
        try:
            yield
        finally:
            self._held_bytes -= size_bytes


def largest_body(request: Request, limit_bytes: int) -> int:
    """How many bytes the body may come to: what a plain one declares, else the limit."""
    declared = request.headers.get("content-length", "")
    if "content-encoding" in request.headers or not (declared.isascii() and declared.isdigit()):
        return limit_bytes
    return min(int(declared[:18]), limit_bytes)


async def read_body(request: Request, limit_bytes: int) -> bytes:
    """The body, unpacked; never holds more than `limit_bytes` of it.

    Raises:
        TooLarge: there is more.
        InputError: it is no whole gzip stream, is encoded in another way, or comes too slowly.

    """
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in {"identity", "gzip"}:
        raise InputError(f"the Content-Encoding {encoding!r:.40} is not taken", next_step="send gzip, or none")
    unpack = zlib.decompressobj(_GZIP) if encoding == "gzip" else None
    body = bytearray()
    try:
        async with asyncio.timeout(READ_S):
            async for chunk in request.stream():
                body += chunk if unpack is None else _unpack(unpack, chunk, limit_bytes + 1 - len(body))
                if len(body) > limit_bytes:
                    raise TooLarge(f"the body is larger than {limit_bytes} bytes", next_step="send less at once")
    except TimeoutError:
        raise InputError(f"the body did not come within {READ_S:g} s") from None
    if unpack is not None and (not unpack.eof or unpack.unused_data):
        raise InputError("the body is no whole gzip stream", why="it was cut short, or something follows it")
    return bytes(body)


def _unpack(unpack: "zlib._Decompress", chunk: bytes, room_bytes: int) -> bytes:
    if unpack.eof and chunk:
        raise InputError("the body is no whole gzip stream", why="something follows its end")
    try:
        return unpack.decompress(chunk, room_bytes)
    except zlib.error as error:
        raise InputError("the body is no gzip stream", why=str(error)) from None
