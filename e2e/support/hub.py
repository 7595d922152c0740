"""A hub on loopback that speaks what the console and huggingface_hub use, and can be disturbed in every way."""

import contextlib
import gzip
import hashlib
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = hashlib.sha1(b"first", usedforsecurity=False).hexdigest()
LARGE_BYTES = 1 << 10
"""Files from this size on are told of as large ones: by their sha256."""


@dataclass
class Repo:
    """A model or dataset. `token`: only who signs in with it sees the repository. `gated`: nobody gets a file."""

    files: Mapping[str, bytes]
    commit: str = COMMIT
    revisions: tuple[str, ...] = ("main",)
    token: str | None = None
    gated: bool = False


@dataclass
class HubServer:
    """What the hub holds and does, and what it was asked."""

    repos: dict[str, Repo] = field(default_factory=dict)
    status: int | None = None
    """Answer everything with this, as the hub itself would."""
    proxy_status: int | None = None
    """Answer everything with this, as something in between would."""
    echoes: bool = False
    """Say in each error what was signed in with."""
    is_silent: bool = False
    cut_after: dict[str, list[int]] = field(default_factory=dict)
    """By file: after how many bytes each download is cut, in turn; then no more."""
    endless: set[str] = field(default_factory=set)
    """Files whose body goes on until nobody takes it any more, under no length."""
    description: bytes | None = None
    """What a revision is described with, gzip-compressed, whatever it is."""
    spoilt: dict[str, bytes] = field(default_factory=dict)
    hold: threading.Event = field(default_factory=threading.Event)
    held: set[str] = field(default_factory=set)
    """Files whose second half waits until `hold` is set."""
    reached: threading.Event = field(default_factory=threading.Event)
    requests: list[tuple[str, str, str | None, str | None]] = field(default_factory=list)
    """Method, path, token and range of each request."""
    endpoint: str = ""

    def downloads(self, name: str) -> list[str | None]:
        """The ranges with which a file was asked for, in turn."""
        return [given for method, path, _, given in self.requests if method == "GET" and path.endswith(f"/{name}")]


@contextmanager
def serve_hub(**repos: Repo) -> Iterator[HubServer]:
    """A hub with these repositories; `models_a_b` is the model `a/b`."""
    hub = HubServer({name.replace("_", "/", 2): repo for name, repo in repos.items()})

    class Handler(_Handler):
        served = hub

    server = _Server(("127.0.0.1", 0), Handler)
    hub.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.hold.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away in the middle is a part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    served: HubServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        del format, args

    def _answer(self) -> None:
        hub, path = self.served, unquote(urlsplit(self.path).path)
        signed = (self.headers.get("Authorization") or "").removeprefix("Bearer ") or None
        hub.requests.append((self.command, path, signed, self.headers.get("Range")))
        if hub.is_silent:
            hub.hold.wait(30)
            self.close_connection = True
            return
        if hub.proxy_status is not None:
            self._send(
                hub.proxy_status, b"<html>denied by policy</html>", {"Content-Type": "text/html", "Via": "squid"}
            )
            return
        if hub.status is not None:
            self._send_error(hub.status, "", "the hub is being mended")
            return
        parts = path.strip("/").split("/")
        if parts[0] == "api":
            self._answer_api("/".join(parts[1:4]), parts[4], "/".join(parts[5:]), signed)
        else:
            kind = "datasets" if parts[0] == "datasets" else "models"
            parts = parts[1:] if kind == "datasets" else parts
            self._answer_file(f"{kind}/{'/'.join(parts[:2])}", "/".join(parts[4:]), signed)

    def _find(self, name: str, signed: str | None) -> Repo | None:
        repo = self.served.repos.get(name)
        if repo is None or (repo.token is not None and repo.token != signed):
            self._send_error(404 if signed else 401, "RepoNotFound", "Repository not found")
            return None
        return repo

    def _answer_api(self, name: str, what: str, revision: str, signed: str | None) -> None:
        repo = self._find(name, signed)
        if repo is None:
            return
        if revision not in {*repo.revisions, repo.commit}:
            self._send_error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
            return
        if what == "revision" and self.served.description is not None:
            packed = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
            self._send(200, gzip.compress(self.served.description), packed)
            return
        if what == "tree":
            rows: Any = [_describe(path, content) for path, content in repo.files.items()]
        else:
            siblings = [{"rfilename": path} for path in repo.files]
            rows = {"id": name, "sha": repo.commit, "siblings": siblings, "private": repo.token is not None}
        self._send(200, json.dumps(rows).encode(), {"Content-Type": "application/json"})

    def _answer_file(self, name: str, path: str, signed: str | None) -> None:
        repo = self._find(name, signed)
        if repo is None:
            return
        if repo.gated and path != "README.md":
            self._send_error(403, "GatedRepo", f"Access to model {name} is restricted")
            return
        content = self.served.spoilt.get(path, repo.files[path])
        start = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").split("-")[0])
        cuts = self.served.cut_after.get(path, [])
        headers = {"X-Repo-Commit": repo.commit, "ETag": '"x"', "Content-Type": "application/octet-stream"}
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        if self.command == "GET" and path in self.served.endless:
            self._send_endless(headers)
        elif self.command == "GET" and cuts:
            self._send_cut(content[start:], headers, cuts.pop(0))
        elif self.command == "GET" and path in self.served.held:
            self._send_held(content[start:], headers)
        else:
            self._send(206 if start else 200, content[start:], headers)

    def _send_cut(self, body: bytes, headers: Mapping[str, str], after: int) -> None:
        self._begin(206 if "Content-Range" in headers else 200, len(body), headers)
        self.wfile.write(body[:after])
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True

    def _send_endless(self, headers: Mapping[str, str]) -> None:
        self.send_response(200)
        for name, value in {**headers, "Transfer-Encoding": "chunked"}.items():
            self.send_header(name, value)
        self.end_headers()
        with contextlib.suppress(OSError):
            while not self.served.hold.is_set():
                self.wfile.write(b"10000\r\n" + bytes(0x10000) + b"\r\n")
        self.close_connection = True

    def _send_held(self, body: bytes, headers: Mapping[str, str]) -> None:
        self._begin(206 if "Content-Range" in headers else 200, len(body), headers)
        half = len(body) // 2
        with contextlib.suppress(OSError):
            self.wfile.write(body[:half])
            self.wfile.flush()
            self.served.reached.set()
            self.served.hold.wait(60)
            self.wfile.write(body[half:])

    def _send_error(self, status: int, code: str, words: str) -> None:
        named = {"X-Error-Code": code} if code else {}
        words += f" ({self.headers.get('Authorization')})" if self.served.echoes else ""
        headers = {**named, "X-Error-Message": words, "Content-Type": "application/json"}
        self._send(status, json.dumps({"error": words}).encode(), headers)

    def _send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self._begin(status, len(body), headers)
        if self.command != "HEAD":
            self.wfile.write(body)

    def _begin(self, status: int, length: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        from_proxy = "Via" in headers
        for name, value in ({} if from_proxy else {"X-Request-Id": "Root=1"} | dict(headers)).items():
            self.send_header(name, value)
        if from_proxy:
            self.send_header("Content-Type", headers["Content-Type"])
        self.send_header("Content-Length", str(length))
        self.end_headers()


def _describe(path: str, content: bytes) -> dict[str, Any]:
    git = hashlib.sha1(f"blob {len(content)}\0".encode() + content, usedforsecurity=False).hexdigest()
    row = {"type": "file", "oid": git, "size": len(content), "path": path}
    if len(content) < LARGE_BYTES:
        return row
    pointer = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
    return {**row, "oid": "0" * 40, "lfs": pointer}
