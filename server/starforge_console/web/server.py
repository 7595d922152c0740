"""Serves both applications in one event loop, and ends them so that nobody's stream is cut in the middle."""

import asyncio
import signal
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp

from starforge_console.errors import SettingsError
from starforge_console.settings.console import HttpSettings, port_of
from starforge_console.web.protocol import BoundedProtocol
from starforge_console.web.proxied import Proxied

BACKLOG: Final = 2048
KEEP_ALIVE_S: Final = 75
SHUTDOWN_LIMIT_S: Final = 2
"""A net only: streams are ended before anything waits for them."""


@dataclass(frozen=True, slots=True)
class Listening:
    """The ports that were bound; they are real ones also where the setting said 0."""

    api_port: int
    ingest_port: int


class StreamEndingServer(uvicorn.Server):
    """Uvicorn waits for open answers before an application hears of the end: this ends them first."""

    def __init__(self, config: uvicorn.Config, end_streams: Callable[[], None]) -> None:
        super().__init__(config)
        self._end_streams = end_streams
        self.is_up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say so."""
        await super().startup(sockets)
        self.is_up.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams, then everything else."""
        self._end_streams()
        await super().shutdown(sockets)

    async def run_on(self, listener: socket.socket) -> None:
        """Serve on `listener` until `should_exit`; signals are the caller's."""
        await self._serve([listener])


async def serve(
    api: FastAPI,
    ingest: ASGIApp,
    http: HttpSettings,
    on_ready: Callable[[Listening], Awaitable[None]],
    stop: asyncio.Event,
) -> None:
    """Serve until `stop` is set, which SIGTERM and SIGINT do; `on_ready` is awaited once both listen.

    Returns when both have ended, within about 2 s. If `on_ready` raises, both end and the error is raised.

    Raises:
        SettingsError: an address cannot be listened on.

    """
    with (
        _listener("FORGE_LISTEN", http.listen) as api_socket,
        _listener("FORGE_INGEST_LISTEN", http.ingest_listen) as ingest_socket,
        _signals(stop),
    ):
        servers = (
            StreamEndingServer(_configure(api, http.trusted_proxies), api.state.polls.close),
            StreamEndingServer(_configure(ingest), lambda: None),
        )
        listening = Listening(api_socket.getsockname()[1], ingest_socket.getsockname()[1])
        running = [
            asyncio.create_task(server.run_on(listener))
            for server, listener in zip(servers, (api_socket, ingest_socket), strict=True)
        ]
        try:
            for server in servers:
                await _first_of(server.is_up.wait(), running)
            await on_ready(listening)
            await _first_of(stop.wait(), running)
        finally:
            # Told, not cancelled: each ends its streams and answers what it has begun to answer.
            for server in servers:
                server.should_exit = True
            await asyncio.gather(*running)


async def _first_of(event: Coroutine[Any, Any, object], running: Sequence[asyncio.Task[None]]) -> None:
    """Wait for `event`, or for a server that ended by itself."""
    waiting = asyncio.ensure_future(event)
    try:
        await asyncio.wait([waiting, *running], return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()


def _configure(app: ASGIApp, trusted_proxies: str = "") -> uvicorn.Config:
    """Without a proxy that was named, nobody's word about another address counts, not even this machine's own."""
    return uvicorn.Config(
        Proxied(app, trusted_proxies) if trusted_proxies else app,
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=SHUTDOWN_LIMIT_S,
    )


@contextmanager
def _listener(setting: str, address: str) -> Iterator[socket.socket]:
    host = address.rpartition(":")[0].strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port_of(address)), family=family, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        raise SettingsError(
            f"{setting} {address} cannot be listened on",
            why=str(error),
            next_step="end what listens there, or name another address",
        ) from error
    # Connections inherit it. Event loops leave it out for such a socket, and each answer would wait 40 ms for an
    # acknowledgement between its head and its body.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with listener:
        yield listener


@contextmanager
def _signals(stop: asyncio.Event) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    taken: list[signal.Signals] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        try:
            loop.add_signal_handler(number, stop.set)
        except (RuntimeError, ValueError):  # not the main thread: whoever started it ends it
            continue
        taken.append(number)
    try:
        yield
    finally:
        for number in taken:
            loop.remove_signal_handler(number)
