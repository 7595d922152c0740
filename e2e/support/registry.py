"""A small image registry that fails on request: the repository's name says how it behaves.

`ok` serves; `slow` trickles; `stall` never answers; `cut` breaks off in the middle of a layer each time; `denied`,
`secret` (wants user:pw), `missing`, `busy` (429 twice, then well), `broken` (503 always), `arm` (another processor).
"""

import base64
import contextlib
import functools
import gzip
import hashlib
import io
import json
import os
import tarfile
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

_MANIFEST: Final = "application/vnd.docker.distribution.manifest.v2+json"
_CONFIG: Final = "application/vnd.docker.container.image.v1+json"
_LAYER: Final = "application/vnd.docker.image.rootfs.diff.tar.gzip"
_PIECE_BYTES: Final = 64 * 1024
_BALLAST_BYTES: Final = 4 << 20
_REFUSALS: Final = {
    "denied": (403, "DENIED", "requested access to the resource is denied"),
    "missing": (404, "NAME_UNKNOWN", "repository name not known to registry"),
    "broken": (503, "UNAVAILABLE", "try later"),
}
_KEY: Final = "key"
_WANTED_LOGIN: Final = "Basic " + base64.b64encode(b"user:pw").decode()


@dataclass(slots=True)
class StubRegistry:
    """A running registry. `go_on` lets `slow` and `stall` continue; `asked` counts requests by (repository, kind)."""

    address: str
    blobs: dict[str, bytes]
    manifests: dict[str, bytes]
    asked: Counter[tuple[str, str]] = field(default_factory=Counter)
    go_on: threading.Event = field(default_factory=threading.Event)

    def image(self, repository: str) -> str:
        """The reference under which an engine asks for `repository`."""
        return f"{self.address}/{repository}:1"


class _Catalog:
    """Images and their blobs, packed once a process."""

    def __init__(self, root_tar: Path) -> None:
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[str, bytes] = {}
        base = root_tar.read_bytes()
        packed = gzip.compress(base, 1, mtime=0)
        for repository in ("ok", "secret", "busy", *_REFUSALS):
            self._add(repository, {base: packed})
        for repository in ("slow", "stall", "cut"):
            self._add(repository, {base: packed} | _pack_ballast(repository))
        self._add("arm", _pack_ballast("arm"), "arm64")

    def _add(self, repository: str, layers: dict[bytes, bytes], architecture: str = "amd64") -> None:
        config = json.dumps(
            {
                "architecture": architecture,
                "os": "linux",
                "config": {"Env": ["PATH=/usr/bin:/bin"]},
                "rootfs": {"type": "layers", "diff_ids": [_digest(layer) for layer in layers]},
            }
        ).encode()
        self.blobs |= {_digest(blob): blob for blob in (*layers.values(), config)}
        manifest = {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": {"mediaType": _CONFIG, "digest": _digest(config), "size": len(config)},
            "layers": [{"mediaType": _LAYER, "digest": _digest(blob), "size": len(blob)} for blob in layers.values()],
        }
        self.manifests[repository] = json.dumps(manifest).encode()


@contextlib.contextmanager
def stub_registry(host: str, root_tar: Path) -> Iterator[StubRegistry]:
    """A registry at `host` (an address that the engine reaches) whose images hold the file system of `root_tar`."""
    catalog = _load_catalog(root_tar)
    with ThreadingHTTPServer((host, 0), _Handler) as server:
        server.daemon_threads = True
        registry = StubRegistry(f"{host}:{server.server_port}", catalog.blobs, catalog.manifests)
        server.registry = registry  # type: ignore[attr-defined]  # the handler finds it there
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield registry
        finally:
            registry.go_on.set()
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Say nothing: the test that looks on counts requests instead."""

    def do_GET(self) -> None:
        registry: StubRegistry = self.server.registry  # type: ignore[attr-defined]  # set by stub_registry
        path = self.path.partition("?")[0].strip("/").split("/")
        if path in (["v2"], ["token"]):
            self._answer_sign_in(registry, path[0])
            return
        repository, kind, reference = path[-3:]
        registry.asked[repository, kind] += 1
        if kind == "manifests":
            self._answer_manifest(registry, repository)
        else:
            self._answer_blob(registry, repository, registry.blobs[reference])

    do_HEAD = do_GET  # noqa: N815 - the name that http.server looks for

    def _answer_sign_in(self, registry: StubRegistry, path: str) -> None:
        given = self.headers.get("Authorization", "")
        if path == "token":
            token = _KEY if given == _WANTED_LOGIN else "anybody"
            self._answer(200, json.dumps({"token": token}).encode())
        elif given:
            self._answer(200, b"{}")
        else:
            self._refuse_stranger(registry)

    def _refuse_stranger(self, registry: StubRegistry) -> None:
        realm = f'Bearer realm="http://{registry.address}/token",service="stub"'
        self._refuse(401, "UNAUTHORIZED", "authentication required", {"WWW-Authenticate": realm})

    def _answer_manifest(self, registry: StubRegistry, repository: str) -> None:
        if repository in _REFUSALS:
            self._refuse(*_REFUSALS[repository])
        elif repository == "busy" and registry.asked[repository, "manifests"] <= 2:
            self._refuse(429, "TOOMANYREQUESTS", "too many requests")
        elif repository == "secret" and self.headers.get("Authorization") != f"Bearer {_KEY}":
            self._refuse_stranger(registry)
        else:
            if repository == "stall":
                registry.go_on.wait()
            manifest = registry.manifests[repository]
            self._answer(200, manifest, {"Content-Type": _MANIFEST, "Docker-Content-Digest": _digest(manifest)})

    def _answer_blob(self, registry: StubRegistry, repository: str, blob: bytes) -> None:
        large = len(blob) > _BALLAST_BYTES // 2
        if self.command == "HEAD" or not large or repository not in {"slow", "cut"}:
            self._answer(200, blob, {"Content-Type": "application/octet-stream"})
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(blob)))
        self.end_headers()
        half = len(blob) // 2
        self._write(blob[:half])
        if repository == "cut":
            self.close_connection = True
            return
        registry.go_on.wait()
        self._write(blob[half:])

    def _refuse(self, status: int, code: str, message: str, headers: dict[str, str] | None = None) -> None:
        self._answer(status, json.dumps({"errors": [{"code": code, "message": message}]}).encode(), headers)

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        given = {"Content-Type": "application/json", "Docker-Distribution-Api-Version": "registry/2.0"}
        for name, value in (given | (headers or {}) | {"Content-Length": str(len(body))}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self._write(body)

    def _write(self, body: bytes) -> None:
        # An engine that gives a pull up closes the connection in the middle.
        with contextlib.suppress(ConnectionError):
            for start in range(0, len(body), _PIECE_BYTES):
                self.wfile.write(body[start : start + _PIECE_BYTES])


@functools.cache
def _load_catalog(root_tar: Path) -> _Catalog:
    return _Catalog(root_tar)


def _pack_ballast(name: str) -> dict[bytes, bytes]:
    content = os.urandom(_BALLAST_BYTES)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        entry = tarfile.TarInfo(f"ballast-{name}")
        entry.size = len(content)
        tar.addfile(entry, io.BytesIO(content))
    layer = packed.getvalue()
    return {layer: gzip.compress(layer, 1, mtime=0)}


def _digest(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()
