"""Serve: one node over HTTP, let in by certificate, with its heartbeats, until TERM or INT.

A join while it serves gives the machine a new certificate and perhaps a new console: then everything is built anew, and
the listening socket stays, so that nobody is turned away meanwhile.
"""

import asyncio
import contextlib
import logging
import resource
import signal
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from starforge.contract.launch import Secret
from starforge.errors import ProjectError
from starforge_forgelet.api import build_app
from starforge_forgelet.console import ConsoleLink
from starforge_forgelet.credential import load_credential
from starforge_forgelet.heartbeat import Heartbeats
from starforge_forgelet.legacy import EPOCH, LegacyDoor
from starforge_forgelet.node import Node, build_node
from starforge_forgelet.settings import NodeSettings
from starforge_forgelet.state import NodeIdentity, NodeState

_KEEP_ALIVE_S: Final = 75
"""Longer than the console keeps an idle connection, so that it is never the daemon that closes one in use."""
_LOOK_S: Final = 1.0
_SHUTDOWN_S: Final = 5
_BACKLOG: Final = 256
_HANDSHAKE_S: Final = 10.0
_FILES: Final = 65_536
"""Strangers hold a connection until their handshake's time is up; heartbeats and the engine need files beside them."""

_log = logging.getLogger("forgelet")


def serve(settings: NodeSettings, host: str, port: int) -> None:
    """Serve until TERM or INT; containers are untouched by the end.

    Raises:
        NotFound: the machine has not joined.
        ProjectError: the state directory, the secrets folder or the address cannot be used.

    """
    state = NodeState(settings.state_dir)
    if settings.legacy_token is None:
        state.load_identity()
    _raise_file_limit()
    with _listen(host, port) as listener:
        asyncio.run(_serve(settings, state, listener))


async def _serve(settings: NodeSettings, state: NodeState, listener: socket.socket) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    while not stop.is_set():
        version = state.find_identity_version()
        running = _running if state.has_joined() else _running_legacy
        async with running(settings, state, listener):
            while not stop.is_set() and state.find_identity_version() == version:
                await _wait(stop)
        if not stop.is_set():
            _log.info("this machine has joined again: serving anew")


@contextlib.asynccontextmanager
async def _running(settings: NodeSettings, state: NodeState, listener: socket.socket) -> AsyncIterator[None]:
    """One node as its present identity says, serving on `listener` and beating."""
    node = build_node(settings, state, state.load_identity())
    link = ConsoleLink(node.identity.server)
    signer, tls = load_credential(state, node.identity, _say_refused)
    beats = Heartbeats(node, state, link, signer)
    server = _Server(_configure(build_app(node), tls))
    await node.start(beats.wake)
    tasks = [
        asyncio.create_task(server.run_on(listener.dup()), name="http"),
        asyncio.create_task(beats.run(), name="heartbeats"),
    ]
    try:
        yield
    finally:
        server.should_exit = True
        tasks[1].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await node.close()
        await link.close()


@contextlib.asynccontextmanager
async def _running_legacy(settings: NodeSettings, state: NodeState, listener: socket.socket) -> AsyncIterator[None]:
    """A node that did not join and is let in by token, without TLS and heartbeats."""
    opened: list[Node] = []

    async def open_node(identity: NodeIdentity) -> Starlette:
        state.write_legacy(identity)
        node = build_node(settings, state, identity)
        node.epoch = EPOCH
        await node.start(lambda: None)
        opened.append(node)
        return build_app(node)

    _log.warning("serving without registration, over plain HTTP, for whoever shows FORGE_NODE_TOKEN: better join")
    door = LegacyDoor(_require_token(settings), _find_legacy_identity(settings, state), open_node)
    server = _Server(_configure(door, None))
    serving = asyncio.create_task(server.run_on(listener.dup()), name="http")
    try:
        yield
    finally:
        server.should_exit = True
        await asyncio.gather(serving, return_exceptions=True)
        for node in opened:
            await node.close()


def _find_legacy_identity(settings: NodeSettings, state: NodeState) -> NodeIdentity:
    state.prepare()
    known = state.find_legacy()
    if known is not None:
        return known
    if settings.storage_root is None:
        raise ProjectError(
            "FORGE_STORAGE_ROOT is not set",
            why="a node that does not join is told by nobody where the shared folder is",
            next_step="set it to the console's path, or join",
        )
    return NodeIdentity(
        node=socket.gethostname(),
        fleet="",
        install="",
        server="",
        console_certificate="",
        advertise="",
        storage_root=str(settings.storage_root),
        storage_id="",
        ingest_url="",
        heartbeat_s=0.0,
    )


def _require_token(settings: NodeSettings) -> Secret:
    if settings.legacy_token is None:
        raise ProjectError("this machine has left its console", next_step="run 'forgelet join'")
    return settings.legacy_token


class _Server(uvicorn.Server):
    """A server whose signals are handled by whoever runs it, and that waits for no stranger's handshake for long."""

    async def run_on(self, listener: socket.socket) -> None:
        """Serve on `listener`, which it closes, until `should_exit`."""
        await self._serve([listener])

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As the base does for sockets that are there; it knows of no time for the handshake but a minute."""
        await self.lifespan.startup()
        tls, loop = self.config.ssl, asyncio.get_running_loop()
        limit_s = None if tls is None else _HANDSHAKE_S
        self.servers = [
            await loop.create_server(
                self._build_protocol, sock=one, ssl=tls, backlog=_BACKLOG, ssl_handshake_timeout=limit_s
            )
            for one in sockets or ()
        ]
        self.started = True

    def _build_protocol(self) -> asyncio.Protocol:
        return H11Protocol(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)


def _configure(app: ASGIApp, tls: ssl.SSLContext | None) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        loop="asyncio",
        http=H11Protocol,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_SHUTDOWN_S,
        ssl_context_factory=None if tls is None else lambda _config, _default: tls,
    )


def _say_refused(why: str) -> None:
    """A refused caller sees a cut connection and nothing else: who mends it must find the reason here."""
    _log.warning("a caller was refused: %s; if that was the console, run 'forgelet join' again", why)


def _raise_file_limit() -> None:
    """Take as many files as this process may; a shell gives it far fewer."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


@contextlib.contextmanager
def _listen(host: str, port: int) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        raise ProjectError(
            f"{host}:{port} cannot be listened on",
            why=str(error),
            next_step="end what listens there, or name another port and join again with it",
        ) from error
    # Connections inherit it; without it an answer's body waits for its head to be acknowledged.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with listener:
        yield listener


async def _wait(stop: asyncio.Event) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LOOK_S):
            await stop.wait()
