"""The console as a daemon sees it: joins, epochs and heartbeats over HTTP, on a port of its own, told what to say."""

import asyncio
import base64
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from core.tests.containers.builders import wait_until
from starforge.contract.registration import (
    COUNTER_HEADER,
    EPOCH_HEADER,
    EPOCH_PATH,
    EPOCH_PURPOSE,
    HEARTBEAT_PATH,
    HEARTBEAT_PURPOSE,
    JOIN_PATH,
    SIGNATURE_HEADER,
    EpochAnswer,
    EpochRequest,
    Fenced,
    HeartbeatAnswer,
    JoinAnswer,
    JoinRequest,
    Superseded,
    signed_bytes,
)
from starforge.contract.wire import NodeReport, decode, encode
from starforge.trust.certificates import load_public_key, make_identity
from starforge.trust.signatures import is_signed

INSTALL = "lab"
JOIN_TOKEN = "join-me"  # noqa: S105 - made up


@dataclass(slots=True)
class Registrar:
    """What it knows and says. `fenced` is answered until a heartbeat has caught up with it."""

    storage_root: str
    storage_id: str = "storage-1"
    url: str = ""
    identity_pem: str = field(default_factory=lambda: make_identity("console").pem, repr=False)
    epoch: int = 0
    nonce: str = ""
    joins: list[JoinRequest] = field(default_factory=list)
    reports: list[NodeReport] = field(default_factory=list)
    counters: list[tuple[int, int]] = field(default_factory=list)
    fenced: Fenced | None = None
    refuse_with: int = 0
    heartbeat_s: float = 0.2
    heard: Callable[[NodeReport], None] = lambda _report: None

    @property
    def certificate(self) -> str:
        return self.identity_pem[self.identity_pem.index("-----BEGIN CERTIFICATE") :]

    @property
    def node_certificate(self) -> str:
        return self.joins[-1].certificate

    async def join(self, request: Request) -> Response:
        message = decode(await request.body(), JoinRequest)
        if self.refuse_with or (message.token != JOIN_TOKEN and message.rejoin is None):
            return _problem(self.refuse_with or 403, "the join token is not known here")
        self.joins.append(message)
        answer = JoinAnswer(
            node="n3",
            fleet=message.fleet,
            install=INSTALL,
            certificate=self.certificate,
            storage_root=self.storage_root,
            storage_id=self.storage_id,
            ingest_url="http://127.0.0.1:9",
            fence=0,
            epoch=self.epoch,
            heartbeat_s=self.heartbeat_s,
            gpus_without_series=tuple(sorted(set(message.gpus))),
            job_user="12345:12345",
            trial_folder=f"{self.storage_root}/.starforge-trial/12345-12345",
            trial_trouble="the share said no",
        )
        return Response(encode(answer))

    async def take_epoch(self, request: Request) -> Response:
        body = await request.body()
        message = decode(body, EpochRequest)
        if self.refuse_with or not self._is_signed(request, EPOCH_PURPOSE, body):
            return _problem(self.refuse_with or 401, "the signature is not of this node")
        if message.nonce != self.nonce:
            if message.have != self.epoch:
                return Response(encode(Superseded(superseded_by=self.epoch)), 409)
            self.epoch, self.nonce = self.epoch + 1, message.nonce
        return Response(encode(EpochAnswer(epoch=self.epoch)))

    async def beat(self, request: Request) -> Response:
        body = await request.body()
        report = decode(body, NodeReport)
        if self.refuse_with or not self._is_signed(request, HEARTBEAT_PURPOSE, body):
            return _problem(self.refuse_with or 401, "the signature is not of this node")
        if report.epoch != self.epoch:
            return Response(encode(Superseded(superseded_by=self.epoch)), 409)
        self.counters.append((int(request.headers[EPOCH_HEADER]), int(request.headers[COUNTER_HEADER])))
        self.reports.append(report)
        self.heard(report)
        if self.fenced is not None and report.fence < self.fenced.fence:
            return Response(encode(self.fenced), 409)
        return Response(encode(HeartbeatAnswer(now=time.time(), heartbeat_s=self.heartbeat_s, reachable=True)))

    def _is_signed(self, request: Request, purpose: bytes, body: bytes) -> bool:
        numbers = int(request.headers[EPOCH_HEADER]), int(request.headers[COUNTER_HEADER])
        message = signed_bytes(purpose, INSTALL, "n3", numbers, body)
        signature = base64.b64decode(request.headers[SIGNATURE_HEADER])
        return is_signed(load_public_key(self.node_certificate), signature, message)


@contextlib.contextmanager
def serve_registrar(registrar: Registrar) -> Iterator[Registrar]:
    """`registrar` over HTTP, its `url` set, for as long as the block lasts."""
    app = Starlette(
        routes=[
            Route(JOIN_PATH, registrar.join, methods=["POST"]),
            Route(EPOCH_PATH, registrar.take_epoch, methods=["POST"]),
            Route(HEARTBEAT_PATH, registrar.beat, methods=["POST"]),
        ]
    )
    server = uvicorn.Server(
        uvicorn.Config(app, host="127.0.0.1", port=0, lifespan="off", log_config=None, loop="asyncio", http="h11")
    )
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()), daemon=True)
    thread.start()
    wait_until(lambda: server.started, "the registrar listens", 20)
    registrar.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    try:
        yield registrar
    finally:
        server.should_exit = True
        thread.join(20)


def _problem(status: int, title: str) -> Response:
    return Response(f'{{"title":"{title}"}}', status, media_type="application/problem+json")
