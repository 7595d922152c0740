"""Bodies of ingest: bounded in size also once they are unpacked, in time, and in how much is held at once."""

import zlib
from typing import Final

from starlette.requests import Request

from starforge.contract.bounds import BODY_BYTES
from starforge.errors import InputError
from starforge_console.errors import EncodingRefused, TooLarge
from starforge_console.web.body import USUAL, Patience, read_pieces
from starforge_console.web.room import Hold, Room

IN_FLIGHT_BYTES: Final = 64 << 20
SHARES: Final = 8
"""One attempt may hold such a part of it: with its token a job could else keep all others out."""
_GZIP: Final = 31
"""zlib's name for a gzip header with the largest window."""


def build_room(limit_bytes: int = IN_FLIGHT_BYTES) -> Room:
    """Room for so many bytes of bodies; each attempt may hold a share, and one body in any case."""
    return Room(limit_bytes, max(limit_bytes // SHARES, BODY_BYTES))


async def read_body(request: Request, limit_bytes: int, hold: Hold, patience: Patience = USUAL) -> bytes:
    """The body, unpacked; never more than `limit_bytes` of it, and `hold` grows as it comes.

    Raises:
        TooLarge: there is more.
        InputError: it is no whole gzip stream.
        EncodingRefused: it is encoded in another way.
        BodyTooSlow: it does not come in time.
        Busy: there is no room for it.

    """
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in {"identity", "gzip"}:
        raise EncodingRefused(f"the Content-Encoding {encoding!r:.40} is not taken", next_step="send gzip, or none")
    unpack = zlib.decompressobj(_GZIP) if encoding == "gzip" else None
    body = bytearray()
    async for chunk in read_pieces(request.receive, patience):
        piece = chunk if unpack is None else _unpack(unpack, chunk, limit_bytes + 1 - len(body))
        if len(body) + len(piece) > limit_bytes:
            raise TooLarge(f"the body is larger than {limit_bytes} bytes", next_step="send less at once")
        hold.grow(len(piece))
        body += piece
    if unpack is not None and (not unpack.eof or unpack.unused_data):
        raise InputError(
            "the body is no whole gzip stream",
            why="it was cut short, or something follows it",
            next_step="send it again, whole",
        )
    return bytes(body)


def _unpack(unpack: "zlib._Decompress", chunk: bytes, room_bytes: int) -> bytes:
    if unpack.eof and chunk:
        raise InputError(
            "the body is no whole gzip stream",
            why="something follows its end",
            next_step="send one gzip stream and nothing after it",
        )
    try:
        return unpack.decompress(chunk, room_bytes)
    except zlib.error as error:
        raise InputError(
            "the body is no gzip stream", why=str(error), next_step="send it again, or without Content-Encoding"
        ) from None
