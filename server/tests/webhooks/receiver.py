"""A server on loopback that webhooks are told at: it keeps what came, and answers as a test says."""

import hashlib
import hmac
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

DEADLINE_S = 20.0


@dataclass(frozen=True)
class Arrived:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["x-starforge-delivery"]

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def is_signed_with(self, secret: str) -> bool:
        signed = self.headers["x-starforge-timestamp"].encode() + b"." + self.body
        expected = "v1=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
        return hmac.compare_digest(expected, self.headers["x-starforge-signature"])


@dataclass
class Receiver:
    """`answers` are used up one by one, then `usual`. An answer of None cuts the connection, "wait" gives none.

    Whatever is answered comes `answers_after_s` later.
    """

    answers: list[int | str | None] = field(default_factory=list)
    usual: int | str | None = 204
    arrived: list[Arrived] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)
    ended: threading.Event = field(default_factory=threading.Event)
    url: str = ""
    answers_after_s: float = 0.0

    def take(self, one: Arrived) -> int | str | None:
        with self.changed:
            self.arrived.append(one)
            self.changed.notify_all()
            return self.answers.pop(0) if self.answers else self.usual

    def await_number(self, number: int) -> list[Arrived]:
        """What came, once it is so many."""
        self.await_that(lambda: len(self.arrived) >= number)
        return list(self.arrived)

    def await_that(self, happened: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(happened, DEADLINE_S), [one.id for one in self.arrived]


class _Handler(BaseHTTPRequestHandler):
    receiver: Receiver

    def do_POST(self) -> None:
        self._take()

    def do_GET(self) -> None:
        self._take()

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _take(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.receiver.take(Arrived(self.path, headers, body))
        self.receiver.ended.wait(self.receiver.answers_after_s)
        if answer is None:
            self.close_connection = True
            return
        if answer == "wait":
            self.receiver.ended.wait(DEADLINE_S)
            return
        if answer == "endless":
            self._send_without_end()
            return
        self.send_response(int(answer))
        if int(answer) in range(300, 400):
            self.send_header("Location", f"{self.receiver.url}/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _send_without_end(self) -> None:
        self.send_response(200)
        self.end_headers()
        try:
            while not self.receiver.ended.is_set():
                self.wfile.write(bytes(1 << 16))
        except OSError:
            self.close_connection = True


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A sender that went away in the middle is a part of the tests."""


@contextmanager
def receiving(certificate: Path | None = None) -> Iterator[Receiver]:
    """A receiver in plain HTTP, or over TLS with the key and certificate in a file."""
    receiver = Receiver()
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"receiver": receiver}))
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}"
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        receiver.url = f"https://localhost:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield receiver
    finally:
        receiver.ended.set()
        server.shutdown()
        server.server_close()
        thread.join(DEADLINE_S)
