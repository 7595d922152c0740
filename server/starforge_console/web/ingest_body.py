"""Bodies of ingest: bounded in size also once they are unpacked, in time, and in how much is held at once."""

import zlib
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from backports.zstd import DecompressionParameter, ZstdDecompressor, ZstdError
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
_ZSTD_WINDOW_LOG: Final = 21
"""A frame that looks back further than two MiB would hold more memory than any body that is taken."""


def build_room(limit_bytes: int = IN_FLIGHT_BYTES) -> Room:
    """Room for so many bytes of bodies; each attempt may hold a share, and one body in any case."""
    return Room(limit_bytes, max(limit_bytes // SHARES, BODY_BYTES))


async def read_body(request: Request, limit_bytes: int, hold: Hold, patience: Patience = USUAL) -> bytes:
    """The body, unpacked; never more than `limit_bytes` of it, and `hold` grows as it comes.

    Raises:
        TooLarge: there is more.
        InputError: it is no whole stream of the encoding that it names.
        EncodingRefused: it is encoded in another way.
        BodyTooSlow: it does not come in time.
        Busy: there is no room for it.

    """
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity" and encoding not in _UNPACKERS:
        raise EncodingRefused(
            f"the Content-Encoding {encoding!r:.40} is not taken", next_step="send gzip, zstd or none"
        )
    unpack = _UNPACKERS[encoding]() if encoding in _UNPACKERS else None
    body = bytearray()
    async for chunk in read_pieces(request.receive, patience):
        piece = chunk if unpack is None else _unpack(unpack, encoding, chunk, limit_bytes + 1 - len(body))
        if len(body) + len(piece) > limit_bytes:
            raise TooLarge(f"the body is larger than {limit_bytes} bytes", next_step="send less at once")
        hold.grow(len(piece))
        body += piece
    if unpack is not None and (not unpack.eof or unpack.unused_data):
        raise InputError(
            f"the body is no whole {encoding} stream",
            why="it was cut short, or something follows it",
            next_step="send it again, whole",
        )
    return bytes(body)


class _Unpacker(Protocol):
    """What both libraries give: a stream that is unpacked piece by piece."""

    @property
    def eof(self) -> bool:
        """Whether its end has come."""

    @property
    def unused_data(self) -> bytes:
        """What followed the end."""

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        """At most so many further bytes."""


def _build_gzip() -> _Unpacker:
    return zlib.decompressobj(_GZIP)


def _build_zstd() -> _Unpacker:
    return ZstdDecompressor(options={DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG})


_UNPACKERS: Final[Mapping[str, Callable[[], _Unpacker]]] = {"gzip": _build_gzip, "zstd": _build_zstd}


def _unpack(unpack: _Unpacker, encoding: str, chunk: bytes, room_bytes: int) -> bytes:
    if unpack.eof and chunk:
        raise InputError(
            f"the body is no whole {encoding} stream",
            why="something follows its end",
            next_step=f"send one {encoding} stream and nothing after it",
        )
    try:
        return b"" if unpack.eof else unpack.decompress(chunk, room_bytes)
    except (zlib.error, ZstdError) as error:
        raise InputError(
            f"the body is no {encoding} stream",
            why=str(error),
            next_step="send it again, or without Content-Encoding",
        ) from None
