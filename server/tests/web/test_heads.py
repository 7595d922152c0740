"""HEAD is answered wherever GET is, with the same head and nothing after it."""

import socket

import pytest
from starlette.testclient import TestClient

from server.tests.pages.support import sign_in
from server.tests.web.lives import begin
from server.tests.web.serving import serving
from server.tests.web.support import ConsoleUnderTest, submit

ENOUGH_S = 30


@pytest.fixture
def client(console: ConsoleUnderTest) -> TestClient:
    headers = console.add_user("ann", "admin")
    signed = sign_in(console, headers)
    signed.headers |= headers
    return signed


@pytest.mark.parametrize(
    "path",
    [
        "/healthz",
        "/jobs",
        "/tokens",
        "/fleets",
        "/api/v1/jobs",
        "/api/v1/whoami",
        "/api/v1/jobs/jaaaaaaaaa",
        "/nowhere",
    ],
)
def test_head_gives_the_status_and_kind_of_get_without_a_body(client: TestClient, path: str) -> None:
    got, head = client.get(path), client.head(path)
    assert (head.status_code, head.headers["content-type"]) == (got.status_code, got.headers["content-type"])
    assert head.content == b""
    assert int(head.headers["content-length"]) > 0


def test_head_of_what_only_takes_forms_says_so(client: TestClient) -> None:
    assert client.head("/signout").status_code == 405


def test_head_of_a_stream_or_a_file_ends_at_its_head(console: ConsoleUnderTest, client: TestClient) -> None:
    job = submit(console, console.add_user("owner"))
    attempt = begin(console, job).attempt
    assert attempt is not None
    console.logs.written[attempt] = b"a line\n"
    for path in (f"/live/jobs/{job}", f"/jobs/{job}/log.txt"):
        answer = client.head(path)
        assert (answer.status_code, answer.content) == (200, b"")


def test_a_connection_goes_on_after_a_head(console: ConsoleUnderTest) -> None:
    with (
        serving(console) as served,
        socket.create_connection(("127.0.0.1", served.ports.api_port), ENOUGH_S) as connection,
    ):
        connection.sendall(b"HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        first = connection.recv(1 << 16)
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        rest = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    assert first.startswith(b"HTTP/1.1 200")
    assert first.endswith(b"\r\n\r\n")
    assert rest.startswith(b"HTTP/1.1 200")
    assert rest.endswith(b'{"status":"ok"}')
