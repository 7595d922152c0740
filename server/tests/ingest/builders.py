"""A console's ingest on real databases in a temporary folder, with one attempt that runs."""

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry
from sqlalchemy import Connection, update

from server.tests.clocks import HandClock
from server.tests.databases import open_database
from server.tests.ledger.builders import apply, guard, submit, take
from starforge.contract.capsule import ExitRecord
from starforge.contract.ids import AttemptId
from starforge.contract.states import Reason
from starforge_console.assembly.layout import StorageLayout
from starforge_console.domain.points import Columns
from starforge_console.ingest.bounds import Bounds
from starforge_console.ingest.masking import Masker
from starforge_console.ingest.receive import Receiver
from starforge_console.ingest.streams import Stores
from starforge_console.ledger.endings import EndedAttempt
from starforge_console.ledger.point_reads import load_chunks, load_rollups
from starforge_console.ledger.reports import ReportingAttempt
from starforge_console.ledger.series import list_segments
from starforge_console.ledger.tables import attempts
from starforge_console.ledger.views import list_events
from starforge_console.telemetry.metrics import IngestCounters
from starforge_console.wakeups import Wakeups

__all__ = ["Site", "event_line", "guard", "line", "metrics_line", "open_site", "run"]

T = TypeVar("T")


@dataclass
class Site:
    """One console's ingest."""

    stores: Stores
    storage: StorageLayout
    clock: HandClock = field(default_factory=HandClock)
    wakeups: Wakeups = field(default_factory=Wakeups)

    def __post_init__(self) -> None:
        self.registry = CollectorRegistry()
        self.counters = IngestCounters(self.registry)
        self.receiver = self.new_receiver()

    def new_receiver(self) -> Receiver:
        return Receiver(self.stores, self.wakeups, self.clock, self.counters)

    async def start_attempt(self, hashed: str = "none", nodes: int = 1) -> ReportingAttempt:
        """An attempt that runs over so many nodes, with an ingest token of this hash."""
        return await self.stores.ledger.write(lambda c: _start_attempt(c, hashed, nodes))

    def spool(self, attempt: ReportingAttempt) -> Path:
        folder = self.storage.attempt(attempt.id).root / "spool"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    async def notes(self, attempt: ReportingAttempt) -> list[str]:
        events = await self.stores.ledger.read(lambda c: list_events(c, attempt.job, limit=10_000))
        return [event.note for event in events if event.kind == "timeline"]

    async def points(self, attempt: ReportingAttempt, key: str) -> list[tuple[int, float]]:
        """(step, value) of all that is kept, in order of arrival."""

        def _read(connection: Connection) -> list[Columns]:
            name = (attempt.job, key)
            wanted = {name: rollup.numbers for name, rollup in load_rollups(connection, [name]).items()}
            return [columns for _, columns in sorted(load_chunks(connection, wanted).get(name, {}).items())]

        chunks = await self.stores.series.read(_read)
        return [point for chunk in chunks for point in zip(chunk.steps, chunk.values, strict=True)]

    async def log_bytes(self, attempt: ReportingAttempt, stream: str = "log") -> bytes:
        """All indexed bytes as they lie in the segment files."""
        segments = await self.stores.series.read(lambda c: list_segments(c, attempt.id, stream, 0, 10_000))
        content = b""
        for segment in segments:
            assert segment.from_byte == len(content)
            file = (self.stores.logs_dir / segment.file).read_bytes()
            content += file[segment.position : segment.position + segment.to_byte - segment.from_byte]
        return content


def ended(attempt: ReportingAttempt) -> EndedAttempt:
    return EndedAttempt(
        id=attempt.id,
        job=attempt.job,
        number=attempt.number,
        fleet="local",
        ended_at=50.0,
        finalised_at=None,
        nodes=attempt.nodes,
    )


def write_exit(site: Site, attempt: ReportingAttempt, **offsets: int) -> None:
    record = ExitRecord(
        version="1.0",
        attempt=attempt.id,
        code=0,
        signal=None,
        term_received_at=None,
        desired="run",
        complete=True,
        reason=None,
        message=None,
        started_at=1.0,
        ended_at=2.0,
        offsets=offsets,
    )
    site.storage.attempt(attempt.id).exit_record.write_text(json.dumps(record.to_json()))


def token_of(attempt: AttemptId) -> str:
    return f"sfa_secret-of-{attempt}"


def secret_of(attempt: AttemptId) -> str:
    return f"owners-own-{attempt}"


def long_secret_of(attempt: AttemptId) -> str:
    """Longer than what is read of an engine's words beyond those that are kept, were it not stretched."""
    return f"key of {attempt}: " + "".join(f"{number:06d}" for number in range(900))


async def words_of(attempt: AttemptId) -> Sequence[str]:
    return (token_of(attempt), secret_of(attempt), long_secret_of(attempt))


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


@asynccontextmanager
async def open_site(folder: Path, bounds: Bounds | None = None) -> AsyncIterator[Site]:
    ledger, series = open_database(folder, "ledger"), open_database(folder, "series")
    site = Site(
        Stores(ledger, series, folder / "logs", Masker(words_of), bounds or Bounds()), StorageLayout(folder / "storage")
    )
    site.wakeups.bind()
    try:
        yield site
    finally:
        await site.receiver.close()
        ledger.close()
        series.close()


def line(document: Mapping[str, object]) -> bytes:
    return json.dumps(document).encode() + b"\n"


def metrics_line(step: int, value: float | str, key: str = "loss") -> bytes:
    return line({"time": 1.0 + step, "step": step, "values": {key: value}})


def event_line(kind: str, **members: object) -> bytes:
    return line({"time": 1.0, "kind": kind, **members})


def _start_attempt(connection: Connection, token_hash: str, nodes: int) -> ReportingAttempt:
    job_id = submit(connection, nodes=nodes)
    attempt = take(connection, job_id).attempt
    connection.execute(update(attempts).where(attempts.c.id == attempt.id).values(token_hash=token_hash))
    apply(connection, job_id, Reason.LAUNCHED, Reason.STARTED)
    return ReportingAttempt(id=attempt.id, job=job_id, number=attempt.number, nodes=nodes)
