import gzip
import tracemalloc

import pytest
from starlette.requests import Request
from starlette.types import Message

from server.tests.ingest.builders import run
from starforge.errors import Busy
from starforge_console.errors import TooLarge
from starforge_console.web.ingest_body import Room, read_body

LIMIT_BYTES = 1 << 20


def _request(body: bytes, encoding: str) -> Request:
    async def _receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return Request({"type": "http", "headers": [(b"content-encoding", encoding.encode())]}, _receive)


def test_a_gzip_bomb_is_never_unpacked_beyond_the_limit() -> None:
    bomb = gzip.compress(b"\0" * (100 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge):
            run(read_body(_request(bomb, "gzip"), LIMIT_BYTES))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 6 * LIMIT_BYTES


def test_a_body_of_exactly_the_limit_is_taken() -> None:
    body = b"x" * LIMIT_BYTES
    assert run(read_body(_request(gzip.compress(body), "gzip"), LIMIT_BYTES)) == body
    assert run(read_body(_request(body, "identity"), LIMIT_BYTES)) == body


def test_room_is_given_back_also_after_an_error() -> None:
    room = Room(limit_bytes=10)
    with pytest.raises(TooLarge), room.hold(10):
        raise TooLarge("more")
    with room.hold(10), pytest.raises(Busy), room.hold(1):
        pass
