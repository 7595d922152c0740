"""A registry that a test plays itself, on loopback, in plain HTTP and over TLS behind a proxy, for any host's name."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from e2e.support.owned import owned_folder
from server.tests.certificates import make_certificate

HOSTS: Final = (
    "registry.site.example",
    "auth.site.example",
    "other.site.example",
    "foreign.example",
    "registry-1.docker.io",
)
VERSION: Final = {"Docker-Distribution-Api-Version": "registry/2.0"}
INDEX: Final = "application/vnd.oci.image.index.v1+json"


@dataclass(frozen=True, slots=True)
class Asked:
    """One request that came."""

    method: str
    host: str
    path: str
    query: Mapping[str, str]
    authorization: str | None


@dataclass(frozen=True, slots=True)
class Answer:
    """What is answered."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass
class Stage:
    """What is played: `answer` says what each request is answered, and `asked` keeps them in turn."""

    answer: Callable[[Asked], Answer]
    asked: list[Asked] = field(default_factory=list)
    hold: threading.Event = field(default_factory=threading.Event)
    """Set at the end, for answers that wait."""
    address: str = ""
    proxied: list[str] = field(default_factory=list)
    """To which HOST:PORT the proxy was asked to connect."""
    proxy_refuses: bool = False

    def count(self, method: str) -> int:
        """How many requests came by this method."""
        return sum(asked.method == method for asked in self.asked)


@contextmanager
def play(answer: Callable[[Asked], Answer] = lambda _: Answer(500)) -> Iterator[Stage]:
    """A registry in plain HTTP at `address`."""
    stage = Stage(answer)
    with _serving(stage, _Handler, None) as port:
        stage.address = f"127.0.0.1:{port}"
        yield stage


@contextmanager
def play_over_tls(answer: Callable[[Asked], Answer]) -> Iterator[tuple[Stage, Mapping[str, str]]]:
    """Every one of HOSTS over TLS, and the environment in which a client finds and trusts them."""
    stage = Stage(answer)
    with (
        _own_certificate() as (file, context),
        _serving(stage, _Handler, context) as port,
        _serving(stage, _Proxy, None, behind=port) as proxy,
    ):
        yield stage, {"HTTPS_PROXY": f"http://127.0.0.1:{proxy}", "SSL_CERT_FILE": str(file)}


@contextmanager
def _own_certificate() -> Iterator[tuple[Path, ssl.SSLContext]]:
    """A certificate for HOSTS, which trusts itself, in a file and as a server's context."""
    with owned_folder() as folder:
        file = folder / "certificate.pem"
        file.write_bytes(make_certificate(*HOSTS))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        yield file, context


def refuse(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> Answer:
    """A registry's refusal."""
    body = f'{{"errors": [{{"code": "{code}", "message": "{message}"}}]}}'.encode()
    return Answer(status, {**VERSION, "Content-Type": "application/json", **(headers or {})}, body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away in the middle is a part of the tests."""


@contextmanager
def _serving(
    stage: Stage, kind: type[BaseHTTPRequestHandler], context: ssl.SSLContext | None, behind: int = 0
) -> Iterator[int]:
    handler = type("Handler", (kind,), {"stage": stage, "behind": behind})
    server = _Server(("127.0.0.1", 0), handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        stage.hold.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    stage: Stage
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        split = urlsplit(self.path)
        signed = self.headers.get("Authorization")
        host = self.headers.get("Host", "")
        asked = Asked(self.command, host, split.path, dict(parse_qsl(split.query)), signed)
        self.stage.asked.append(asked)
        answer = self.stage.answer(asked)
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    do_HEAD = do_GET  # noqa: N815 - the name that http.server looks for

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        del format, args


class _Proxy(BaseHTTPRequestHandler):
    """Connects whatever it is asked to connect to the one server that plays all hosts."""

    stage: Stage
    behind: int

    def do_CONNECT(self) -> None:
        self.stage.proxied.append(self.path)
        if self.stage.proxy_refuses:
            self.send_error(403, "denied by policy")
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.flush()
        with socket.create_connection(("127.0.0.1", self.behind)) as there:
            up = threading.Thread(target=_pump, args=(self.connection, there), daemon=True)
            up.start()
            _pump(there, self.connection)
            up.join()
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        del format, args


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(65536):
            target.sendall(piece)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
