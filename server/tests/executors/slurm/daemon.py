"""A REST daemon that answers what a test says."""

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from starforge_console.executors.slurm.executor import SlurmExecutor
from starforge_console.executors.slurm.settings import ClusterSettings, SigningKey


@dataclass
class Daemon:
    """Answers by the path, with what a document says, or with what an iterator yields until nobody listens any more.

    What is not set is not found, as a version is that is not served.
    """

    answers: dict[str, tuple[int, Any]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    tokens: list[str | None] = field(default_factory=list)
    port: int = 0

    def serve(self, *versions: str, accounting: bool = False) -> None:
        """Offer these versions."""
        names = ["slurm", "slurmdb"] if accounting else ["slurm"]
        paths: dict[str, Any] = {f"/{name}/{version}/jobs": {} for name in names for version in versions}
        self.answers["/openapi/v3"] = (200, {"paths": paths})

    def find(self, path: str) -> tuple[int, Any]:
        self.asked.append(path)
        return self.answers.get(path, (404, "Unable find requested URL. Please view /openapi/v3 for API reference.\n"))


@contextmanager
def serving(daemon: Daemon) -> Iterator[None]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = daemon.find(self.path)
            daemon.tokens.append(self.headers["X-SLURM-USER-TOKEN"])
            if isinstance(body, Iterator):
                self.pour(status, body)
                return
            text = body if isinstance(body, (bytes, str)) else json.dumps(body)
            content = text if isinstance(text, bytes) else text.encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def pour(self, status: int, pieces: Iterator[bytes]) -> None:
            self.send_response(status)
            self.end_headers()
            with suppress(ConnectionError):
                for piece in pieces:
                    self.wfile.write(piece)

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    daemon.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def build_settings(daemon: Daemon, tmp_path: Path, **changes: Any) -> ClusterSettings:
    given = ClusterSettings(
        fleet="cluster",
        install="lab",
        url=f"http://127.0.0.1:{daemon.port}",
        user="ada",
        state_dir=tmp_path / "state",
        storage_root=tmp_path,
    )
    return replace(given, **changes)


def ask(
    daemon: Daemon, tmp_path: Path, question: Callable[[SlurmExecutor], Coroutine[Any, Any, Any]], **changes: Any
) -> Any:
    """Ask an executor over the daemon; `changes` are fields of its settings."""
    key = tmp_path / "key"
    key.write_bytes(b"k" * 32)
    settings = build_settings(daemon, tmp_path, **{"token": SigningKey(key), **changes})

    async def asking() -> Any:
        executor = SlurmExecutor(settings, lambda _type: None)
        try:
            return await question(executor)
        finally:
            await executor.close()

    return asyncio.run(asking())
