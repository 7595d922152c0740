import asyncio
import contextlib
import gzip
import tracemalloc
from collections.abc import Callable

import pytest
from backports import zstd
from backports.zstd import CompressionParameter
from starlette.requests import Request
from starlette.types import Message, Receive

from server.tests.ingest.builders import run
from starforge.errors import Busy, InputError
from starforge_console.errors import TooLarge
from starforge_console.web.body import BodyTooSlow, Patience, read_pieces
from starforge_console.web.ingest_body import build_room, read_body
from starforge_console.web.room import Room

LIMIT_BYTES = 1 << 20


def _request(body: bytes, encoding: str) -> Request:
    async def _receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return Request({"type": "http", "headers": [(b"content-encoding", encoding.encode())]}, _receive)


@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("zstd", zstd.compress)])
def test_a_bomb_is_never_unpacked_beyond_the_limit(encoding: str, pack: Callable[[bytes], bytes]) -> None:
    bomb = pack(b"\0" * (100 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge):
            run(_read(bomb, encoding))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 6 * LIMIT_BYTES


def test_a_body_of_exactly_the_limit_is_taken() -> None:
    body = b"x" * LIMIT_BYTES
    assert run(_read(gzip.compress(body), "gzip")) == body
    assert run(_read(zstd.compress(body), "zstd")) == body
    assert run(_read(body, "identity")) == body


def test_a_frame_that_asks_for_a_large_window_is_refused_before_any_memory_is_taken_for_it() -> None:
    options: dict[int, int] = {CompressionParameter.window_log: 27, CompressionParameter.content_size_flag: 0}
    packer = zstd.ZstdCompressor(options=options)
    greedy = packer.compress(b"x" * 100) + packer.flush()
    with pytest.raises(InputError, match="no zstd stream"):
        run(_read(greedy, "zstd"))


@pytest.mark.parametrize("pieces", [1, 3, 1000])
def test_a_zstd_body_is_taken_however_it_is_cut(pieces: int) -> None:
    body = bytes(range(256)) * 400
    packed = zstd.compress(body)
    size = -(-len(packed) // pieces)
    parts = [packed[at : at + size] for at in range(0, len(packed), size)]

    async def _receive() -> Message:
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

    async def _scenario() -> bytes:
        request = Request({"type": "http", "headers": [(b"content-encoding", b"zstd")]}, _receive)
        with build_room().hold("a") as hold:
            return await read_body(request, LIMIT_BYTES, hold)

    assert run(_scenario()) == body


def test_room_is_given_back_also_after_a_refusal() -> None:
    room = Room(limit=10, share=10)
    with room.hold("a") as hold:
        hold.grow(8)
        with pytest.raises(Busy):
            hold.grow(4)
    with room.hold("a") as hold, room.hold("b") as other:
        hold.grow(10)
        with pytest.raises(Busy):
            other.grow(1)
    with room.hold("b") as other:
        other.grow(10)


def test_nobody_holds_more_than_a_share() -> None:
    room = Room(limit=10, share=4)
    with room.hold("a") as first, room.hold("a") as second, room.hold("b") as other:
        first.grow(3)
        with pytest.raises(Busy):
            second.grow(2)
        second.grow(1)
        other.grow(4)


def test_room_is_taken_for_what_has_come_and_not_for_what_was_announced() -> None:
    async def _scenario() -> None:
        room = Room(limit=100, share=100)
        with room.hold("a") as hold:
            pieces = iter([b"x" * 60])

            async def _receive() -> Message:
                assert hold.size == 0
                return {"type": "http.request", "body": next(pieces), "more_body": False}

            request = Request({"type": "http", "headers": [(b"content-length", b"1000000")]}, _receive)
            assert len(await read_body(request, LIMIT_BYTES, hold)) == 60
            assert hold.size == 60

    run(_scenario())


def test_a_body_of_which_nothing_comes_is_not_waited_for() -> None:
    async def _never() -> Message:
        await asyncio.Event().wait()
        return {}

    with pytest.raises(BodyTooSlow, match="nothing came"):
        run(_gather(_never, Patience(idle_s=0.05)))


def test_a_body_that_trickles_is_not_waited_for() -> None:
    async def _trickle() -> Message:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 0.02)
        return {"type": "http.request", "body": b"x", "more_body": True}

    with pytest.raises(BodyTooSlow, match="bytes a second"):
        run(_gather(_trickle, Patience(idle_s=5, grace_s=0.1, least_bytes_s=1000)))


async def _gather(receive: Receive, patience: Patience) -> bytes:
    return b"".join([piece async for piece in read_pieces(receive, patience)])


async def _read(body: bytes, encoding: str) -> bytes:
    with build_room().hold("a") as hold:
        return await read_body(_request(body, encoding), LIMIT_BYTES, hold)
