"""What a connection may send before a request is one."""

import asyncio
import contextlib
import socket
import time
from collections.abc import Awaitable, Callable, Iterator

import pytest
import uvicorn
from starlette.applications import Starlette

from server.tests.web.serving import Served, serving
from server.tests.web.support import ConsoleUnderTest
from starforge_console.web.protocol import HEAD_BYTES, HEADERS_AT_MOST, BoundedProtocol

ENOUGH_S = 30
SMALL = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"


@pytest.fixture
def served(console: ConsoleUnderTest) -> Iterator[Served]:
    with serving(console) as running:
        yield running


@contextlib.contextmanager
def _connected(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), ENOUGH_S) as connection:
        yield connection


def _read_to_end(connection: socket.socket) -> bytes:
    content = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(1 << 16):
            content += piece
    return content


def _send_until_refused(connection: socket.socket, piece: bytes, pieces: int) -> int:
    sent = 0
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        for _ in range(pieces):
            connection.sendall(piece)
            sent += len(piece)
    return sent


def _status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


@pytest.mark.parametrize("listener", ["api_port", "ingest_port"])
@pytest.mark.parametrize(
    "start", [b"GET /", SMALL + b"A: ", SMALL + b"A", b"GET /healthz?"], ids=["path", "value", "name", "query"]
)
def test_a_head_without_an_end_is_refused_and_holds_nobody_up(served: Served, listener: str, start: bytes) -> None:
    with _connected(getattr(served.ports, listener)) as connection:
        began = time.monotonic()
        connection.sendall(start)
        sent = _send_until_refused(connection, b"a" * 4096, 10_000)
        answer = _read_to_end(connection)
        assert time.monotonic() - began < ENOUGH_S / 2
    assert sent < 10_000 * 4096
    assert not answer or _status(answer) == 431
    with served.client() as client:
        assert client.get("/healthz").status_code == 200


def test_whoever_sends_too_large_a_head_reads_so(served: Served) -> None:
    with _connected(served.ports.api_port) as connection:
        connection.sendall(SMALL + b"Cookie: " + b"a" * (HEAD_BYTES + 1) + b"\r\n\r\n")
        answer = _read_to_end(connection)
    assert _status(answer) == 431
    assert b"connection: close" in answer


def test_more_headers_than_anybody_needs_are_refused(served: Served) -> None:
    lines = b"".join(b"X-%d: 1\r\n" % number for number in range(HEADERS_AT_MOST))
    for head, status in ((SMALL + lines, 431), (SMALL + lines[: lines.rindex(b"X-127")], 200)):
        with _connected(served.ports.api_port) as connection:
            connection.sendall(head + b"Connection: close\r\n\r\n" if status == 431 else head + b"\r\n")
            assert _status(connection.recv(1 << 16)) == status


def test_headers_after_a_body_are_bounded_too(served: Served) -> None:
    with _connected(served.ports.api_port) as connection:
        connection.sendall(b"POST /nowhere HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nA: ")
        assert _send_until_refused(connection, b"a" * 4096, 10_000) < 10_000 * 4096
    with served.client() as client:
        assert client.get("/healthz").status_code == 200


def test_what_is_no_http_is_told_so_and_closed(served: Served) -> None:
    with _connected(served.ports.api_port) as connection:
        connection.sendall(b"\x16\x03\x01 hello\r\n\r\n")
        assert _status(_read_to_end(connection)) == 400


def test_a_large_body_in_small_chunks_is_no_head(served: Served) -> None:
    with served.client() as client:
        answer = client.post("/nowhere", content=(b"x" * 16 for _ in range(8000)))
    assert answer.status_code in {404, 405, 413}


def test_a_connection_is_used_again_and_requests_may_follow_at_once(served: Served) -> None:
    with _connected(served.ports.api_port) as connection:
        connection.sendall((SMALL + b"\r\n") * 3)
        content = b""
        while content.count(b'{"status":"ok"}') < 3:
            piece = connection.recv(1 << 16)
            assert piece
            content += piece
        connection.sendall(SMALL + b"\r\n")
        assert _status(connection.recv(1 << 16)) == 200


class _Impatient(BoundedProtocol):
    head_s = 0.2


@pytest.mark.parametrize(
    ("start", "is_first"),
    [(b"", True), (b"\r\n", True), (b"GET /he", True), (SMALL, True), (b"\r\n", False), (SMALL, False)],
)
def test_a_head_that_does_not_come_ends_the_connection(start: bytes, *, is_first: bool) -> None:
    async def scenario(port: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with contextlib.closing(writer):
            if not is_first:
                writer.write(SMALL + b"\r\n")
                await reader.readuntil(b"\r\n\r\nNot Found")
            writer.write(start)
            return await asyncio.wait_for(reader.read(), ENOUGH_S)

    answer = asyncio.run(_with_impatient_server(scenario))
    assert (_status(answer) if answer else None) == (408 if is_first and start else None)


async def _with_impatient_server(scenario: Callable[[int], Awaitable[bytes]]) -> bytes:
    config = uvicorn.Config(Starlette(), http=_Impatient, log_config=None, lifespan="off", ws="none")
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        task = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            return await scenario(listener.getsockname()[1])
        finally:
            server.should_exit = True
            await task


def test_more_requests_at_once_than_are_answered_are_refused(served: Served) -> None:
    with _connected(served.ports.api_port) as connection:
        sent = _send_until_refused(connection, (SMALL + b"\r\n") * 500, 20)
        answer = _read_to_end(connection)
    assert answer.count(b"HTTP/1.1 200") < sent // len(SMALL)
    with served.client() as client:
        assert client.get("/healthz").status_code == 200
