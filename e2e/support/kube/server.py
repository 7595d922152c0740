"""The API server of a made-up cluster: HTTP on a loopback port, tokens, rights and bad moments before a backend."""

import contextlib
import json
import select
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from e2e.support.kube.faults import Faults, build_forbidden
from e2e.support.kube.kinds import RAYCLUSTERS, RAYJOBS, parse_path
from e2e.support.kube.serving import Backend, Reply, Request, Watch
from e2e.support.kube.status import Document, Json, Refusal, build_status

_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_VERSION: Final = {"major": "1", "minor": "36", "gitVersion": "v1.36.4"}
_DISCOVERY: Final = {
    "kind": "APIResourceList",
    "apiVersion": "v1",
    "groupVersion": "ray.io/v1",
    "resources": [
        {"name": kind.plural, "singularName": "", "namespaced": True, "kind": kind.kind}
        for kind in (RAYJOBS, RAYCLUSTERS)
    ],
}
_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(slots=True)
class KubeServer:
    """A running server. `tokens` are who may come in, by their token; `asked` are the first lines of all requests."""

    backend: Backend
    faults: Faults = field(default_factory=Faults)
    tokens: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    port: int = 0
    _server: "_Server | None" = None
    _thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def up(self) -> None:
        """Listen, on the port of the last time if there was one."""
        self._server = _Server(("127.0.0.1", self.port), _Handler)
        self._server.kube = self
        self.port = self._server.server_port
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, name="kube api", daemon=True
        )
        self._thread.start()

    def go_away(self) -> None:
        """Refuse connections and cut the open ones, until `come_back`."""
        server, self._server = self._server, None
        if server is None or self._thread is None:
            return
        server.shutdown()
        server.cut()
        server.server_close()
        self._thread.join()

    def come_back(self) -> None:
        """Listen again."""
        if self._server is None:
            self.up()

    def close(self) -> None:
        """End every connection and thread."""
        self.faults.clear()
        self.faults.close_watches()
        self.go_away()


@contextlib.contextmanager
def kube_server(backend: Backend) -> Iterator[KubeServer]:
    """A server for as long as the block lasts."""
    server = KubeServer(backend)
    server.up()
    try:
        yield server
    finally:
        server.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 64
    kube: KubeServer

    def __init__(self, *arguments: Json) -> None:
        super().__init__(*arguments)
        self._open: set[socket.socket] = set()
        self._guard = threading.Lock()

    def process_request(self, request: Json, client_address: Json) -> None:
        with self._guard:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Json) -> None:
        with self._guard:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Json, client_address: Json) -> None:
        """A client that left is no error of ours."""

    def cut(self) -> None:
        with self._guard:
            connections = list(self._open)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    @property
    def kube(self) -> KubeServer:
        return self.server.kube  # type: ignore[attr-defined,no-any-return]  # the server is ours

    def log_message(self, *_: object) -> None:
        """Say nothing: tests look at `asked`."""

    def do_GET(self) -> None:
        try:
            self._serve()
        except Refusal as refusal:
            self._send(Reply(refusal.code, refusal.body, refusal.headers))

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 - the names that http.server looks for

    def _serve(self) -> None:
        request = self._read()
        line = f"{self.command} {self.path}"
        self.kube.asked.append(line)
        user = self._find_user()
        rule = self.kube.faults.take(line)
        if rule is not None:
            rule.reached.set()
            if rule.refusal is not None:
                raise rule.refusal
            if rule.kind == "hold":
                rule.release.wait()
        answer = _expire(request) if rule is not None and rule.kind == "expire" else self._answer(request, user)
        if rule is not None and rule.kind == "lose":
            self.close_connection = True
            return
        if isinstance(answer, Reply):
            self._send(answer)
        else:
            self._stream(answer)

    def _read(self) -> Request:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        parts = urlsplit(self.path)
        form = self.headers.get("Content-Type", "application/json").partition(";")[0]
        return Request(self.command, parts.path, parts.query, dict(parse_qsl(parts.query)), body, form)

    def _find_user(self) -> str:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        user = self.kube.tokens.get(token)
        if user is None:
            raise Refusal(401, "Unauthorized")
        return user

    def _answer(self, request: Request, user: str) -> Reply | Watch:
        if request.path == "/version":
            return Reply(200, _VERSION)
        if request.path in {"/readyz", "/livez", "/healthz"}:
            return Reply(200, b"ok")
        if request.path == "/apis/ray.io/v1":
            return Reply(200, _DISCOVERY)
        if request.path == _REVIEWS:
            return Reply(201, self._review(request.load()))
        self._refuse_forbidden(request, user)
        return self.kube.backend.answer(request)

    def _refuse_forbidden(self, request: Request, user: str) -> None:
        address = parse_path(request.path)
        verb = _VERBS.get(request.method) or ("get" if address.name else "watch" if request.is_watch else "list")
        plural = f"{address.kind.plural}/{address.part}" if address.part else address.kind.plural
        if self.kube.faults.forbids(verb, plural, address.namespace):
            refusal = Refusal(403, "")
            refusal.body = build_forbidden(user, verb, address.kind.group, plural, address.namespace)
            raise refusal

    def _review(self, asked: Document) -> Document:
        wanted = asked.get("spec", {}).get("resourceAttributes", {})
        part = wanted.get("subresource")
        plural = f"{wanted.get('resource')}/{part}" if part else wanted.get("resource", "")
        may = not self.kube.faults.forbids(wanted.get("verb", ""), plural, wanted.get("namespace") or None)
        return {
            "kind": "SelfSubjectAccessReview",
            "apiVersion": "authorization.k8s.io/v1",
            "metadata": {"creationTimestamp": None},
            "spec": asked.get("spec", {}),
            "status": {"allowed": may},
        }

    def _send(self, reply: Reply) -> None:
        is_text = isinstance(reply.body, bytes)
        content = reply.body if is_text else json.dumps(reply.body).encode() + b"\n"
        self.send_response(reply.code)
        self.send_header("Content-Type", "text/plain" if is_text else "application/json")
        self.send_header("Content-Length", str(len(content)))
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.end_headers()
        with contextlib.suppress(ConnectionError):
            self.wfile.write(content)

    def _stream(self, watch: Watch) -> None:
        self.kube.faults.add_watch(watch.close)
        try:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for line in watch:
                if line is None:
                    if self._has_left():
                        return
                    continue
                self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True
        finally:
            self.kube.faults.drop_watch(watch.close)
            watch.close()

    def _has_left(self) -> bool:
        """Whether the client has closed its side."""
        readable, _, _ = select.select([self.connection], [], [], 0)
        left = bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)
        self.close_connection = self.close_connection or left
        return left


class _Expired:
    """A watch whose place to go on from is too old."""

    def __iter__(self) -> Iterator[bytes | None]:
        said = build_status(410, "too old resource version: 1 (2)")
        yield json.dumps({"type": "ERROR", "object": said}).encode() + b"\n"

    def close(self) -> None:
        """Nothing is open."""


def _expire(request: Request) -> Reply | Watch:
    if request.is_watch:
        return _Expired()
    return Reply(410, build_status(410, "The provided continue parameter is too old"))
