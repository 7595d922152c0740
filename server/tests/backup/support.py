"""An install with a ledger, logs and curves that come in, on either database."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from sqlalchemy import select

from server.tests.databases import empty_place, is_postgres
from server.tests.ingest.builders import Site, event_line, metrics_line, words_of
from server.tests.ledger.builders import submit
from starforge.contract.canonical import digest_bytes
from starforge_console.assembly.layout import StorageLayout
from starforge_console.backup.taking import take_backup
from starforge_console.fleets.install import locate, prepare_install, prepare_state
from starforge_console.ingest.bounds import Bounds
from starforge_console.ingest.masking import Masker
from starforge_console.ingest.streams import Stores
from starforge_console.ledger.database import Database
from starforge_console.ledger.place import Server
from starforge_console.ledger.reports import ReportingAttempt
from starforge_console.ledger.schemas import SCHEMAS
from starforge_console.ledger.tables import jobs
from starforge_console.settings.console import (
    ConsoleSettings,
    HttpSettings,
    LocalSettings,
    PathSettings,
    PolicySettings,
)

KINDS = ["sqlite", pytest.param("postgres", marks=pytest.mark.skipif(not is_postgres(), reason="it is about a server"))]
WORKSPACE = b"a packed workspace"
Rows = Mapping[str, list[tuple[Any, ...]]]


def build_settings(folder: Path, state: str, kind: str) -> ConsoleSettings:
    """A console whose state, or whose database, is of that name; all of a folder share one storage."""
    url = ""
    if kind == "postgres":
        place = empty_place(folder / state / "ledger.db")
        assert isinstance(place, Server)
        url = place.url.reveal()
    return ConsoleSettings(
        paths=PathSettings(
            console_state_dir=folder / state, storage_root=folder / "storage", database_url=SecretStr(url)
        ),
        http=HttpSettings(),
        local=LocalSettings(),
        policy=PolicySettings(),
    )


def read_rows(settings: ConsoleSettings) -> dict[str, Rows]:
    """Every row of every table, as it is kept."""
    found: dict[str, Rows] = {}
    for schema, metadata in SCHEMAS.items():
        database = Database(locate(settings, schema), schema)
        try:
            found[schema] = database.read_now(
                lambda c, m=metadata: {  # type: ignore[misc]
                    table.name: sorted(map(tuple, c.execute(select(table)).all()), key=repr)
                    for table in m.sorted_tables
                }
            )
        finally:
            database.close()
    return found


@dataclass
class Install:
    """A console's databases at work."""

    settings: ConsoleSettings
    site: Site
    told: dict[ReportingAttempt, bytes] = field(default_factory=dict)
    stopped: bool = False
    busy: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once three attempts have logged something."""

    @property
    def ledger(self) -> Database:
        return self.site.stores.ledger

    async def submit(self) -> None:
        await self.ledger.write(submit)

    async def report(self, rounds: int | None = None) -> None:
        """One attempt that logs, draws curves and tells of checkpoints, until it is told to stop."""
        attempt = await self.site.start_attempt(hashed=secrets.token_hex(8))
        self.told[attempt] = b""
        to = {"metrics": 0, "events": 0}
        step = 0
        while not self.stopped and (rounds is None or step < rounds):
            step += 1
            piece = f"step {step} of {attempt.id}\n".encode() * 40
            await self.site.receiver.take(attempt, "log", len(self.told[attempt]), piece)
            self.told[attempt] += piece
            if len(self.told) == 3 and min(map(len, self.told.values())) > 2000:
                self.busy.set()
            for stream, line in (
                ("metrics", metrics_line(step, step / 7)),
                ("events", event_line("checkpoint", step=step, path=f"ckpt/{step}")),
            ):
                await self.site.receiver.take(attempt, stream, to[stream], line)
                to[stream] += len(line)
            if step % 5 == 0:
                await self.submit()


@asynccontextmanager
async def open_install(settings: ConsoleSettings) -> AsyncIterator[Install]:
    prepare_state(settings)
    state = settings.paths.console_state_dir
    ledger, series = (Database(locate(settings, schema), schema) for schema in ("ledger", "series"))
    prepare_install(ledger, settings, 1.0)
    blob = StorageLayout(settings.storage_root).blob(digest_bytes(WORKSPACE))
    blob.parent.mkdir(parents=True, exist_ok=True)
    blob.write_bytes(WORKSPACE)
    for name in ("vault-key", "token-key"):
        if not (state / name).exists():
            (state / name).write_bytes(f"the {name}".encode())
            (state / name).chmod(0o600)
    site = Site(
        Stores(ledger, series, state / "logs", Masker(words_of), Bounds()), StorageLayout(settings.storage_root)
    )
    site.wakeups.bind()
    try:
        yield Install(settings, site)
    finally:
        await site.receiver.close()
        ledger.close()
        series.close()


async def fill(install: Install, attempts: int = 2, rounds: int = 12) -> None:
    """Some attempts that have reported, and jobs whose workspace is there."""
    await asyncio.gather(*(install.report(rounds) for _ in range(attempts)))
    digest = digest_bytes(WORKSPACE)
    await install.ledger.write(lambda c: c.execute(jobs.update().values(workspace=digest)))


def prepare(folder: Path, kind: str = "sqlite") -> Path:
    """A backup of a console that has some of everything."""

    async def work() -> None:
        async with open_install(build_settings(folder, "state", kind)) as install:
            await fill(install)
            await asyncio.to_thread(take_backup, install.settings, folder / "backup")

    asyncio.run(work())
    return folder / "backup"
