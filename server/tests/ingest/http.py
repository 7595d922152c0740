"""Ingest behind a real uvicorn on a free port, and a client that speaks to it."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import uvicorn

from server.tests.ingest.builders import Site, open_site
from starforge_console.domain.tokens import hash_token
from starforge_console.ingest.presence import Presence
from starforge_console.ingest.tokens import IngestTokens
from starforge_console.ledger.reports import ReportingAttempt
from starforge_console.web.ingest import IngestServices, build_ingest
from starforge_console.web.ingest_body import build_room
from starforge_console.web.protocol import BoundedProtocol
from starforge_console.web.room import Room

TOKEN = "sfa_of-this-attempt"  # noqa: S105 - a made-up one


@dataclass(frozen=True)
class Served:
    """A running ingest: `client` sends the attempt's token."""

    site: Site
    attempt: ReportingAttempt
    client: httpx2.AsyncClient
    presence: Presence
    url: str


@contextlib.asynccontextmanager
async def serve(folder: Path, room: Room | None = None, nodes: int = 1) -> AsyncIterator[Served]:
    async with open_site(folder) as site:
        attempt = await site.start_attempt(hash_token(TOKEN), nodes)
        presence = Presence(site.clock)
        services = IngestServices(
            receiver=site.receiver,
            tokens=IngestTokens(site.stores.ledger, site.clock),
            presence=presence,
            wakeups=site.wakeups,
            counters=site.counters,
            room=room or build_room(),
        )
        listener = socket.create_server(("127.0.0.1", 0))
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        config = uvicorn.Config(
            build_ingest(services), http=BoundedProtocol, log_config=None, lifespan="off", ws="none"
        )
        server = uvicorn.Server(config)
        with contextlib.closing(listener):
            # The socket listens already: whoever connects before the server has started waits in its backlog.
            task = asyncio.create_task(server.serve(sockets=[listener]))
            headers = {"Authorization": f"Bearer {TOKEN}"}
            try:
                async with httpx2.AsyncClient(base_url=f"{url}/api/ingest/v1", headers=headers) as client:
                    yield Served(site, attempt, client, presence, url)
            finally:
                server.should_exit = True
                await task
