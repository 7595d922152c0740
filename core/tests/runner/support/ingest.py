"""A small ingest that speaks the protocol, keeps what it got, and can be told how to answer."""

import gzip
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


class Ingest:
    """Serves on loopback until `close`. `answers`, each (status, headers), are given first."""

    def __init__(self, token: str, port: int = 0, context: ssl.SSLContext | None = None) -> None:
        self.token = token
        self.streams: dict[str, bytes] = {}
        self.exits: list[dict[str, Any]] = []
        self.heartbeats = 0
        self.requests = 0
        self.desired = "run"
        self.grace_s: float | None = None
        self.answers: list[tuple[int, dict[str, str]]] = []
        self.gzip_seen = False
        self.lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _build_handler(self))
        self._server.daemon_threads = True
        if context is not None:
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.port = self._server.server_port
        self.url = f"{'http' if context is None else 'https'}://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def take(self, stream: str, offset: int, body: bytes) -> tuple[int, dict[str, Any]]:
        """Append a body at its offset, or say where to go on."""
        have = self.streams.get(stream, b"")
        if offset != len(have):
            return 409, {"received_to": len(have)}
        self.streams[stream] = have + body
        return 200, {"received_to": len(have) + len(body), "desired": self.desired, "grace_s": self.grace_s}

    def dispatch(self, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        """Answer one request."""
        parts = urlsplit(path)
        kind, _, name = parts.path.removeprefix("/api/ingest/v1/").partition("/")
        if kind == "streams":
            return self.take(name, int(parse_qs(parts.query)["offset"][0]), body)
        if kind == "exit":
            self.exits.append(json.loads(body))
        elif kind == "heartbeat":
            self.heartbeats += 1
        else:
            return 404, {}
        return 200, {"desired": self.desired, "grace_s": self.grace_s}


def _build_handler(ingest: Ingest) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers["Content-Encoding"] == "gzip":
                ingest.gzip_seen = True
                body = gzip.decompress(body)
            with ingest.lock:
                ingest.requests += 1
                status = 401
                document: dict[str, Any] = {}
                headers: dict[str, str] = {}
                if self.headers["Authorization"] == f"Bearer {ingest.token}":
                    if ingest.answers:
                        status, headers = ingest.answers.pop(0)
                    else:
                        status, document = ingest.dispatch(self.path, body)
            content = json.dumps(document).encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def handle(self) -> None:
            try:
                super().handle()
            except ssl.SSLError:
                return  # a client that does not trust us

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler
