"""Sends its streams to a receiver until it is killed: `python -m server.tests.ingest.victim FOLDER ATTEMPT NUMBER`."""

import asyncio
import sys
from pathlib import Path

from prometheus_client import CollectorRegistry

from server.tests.databases import place_of
from server.tests.ingest.builders import event_line, metrics_line
from starforge.contract.ids import AttemptId, job_of, parse_attempt_id
from starforge_console.clock import SystemClock
from starforge_console.ingest.masking import Masker
from starforge_console.ingest.receive import Receiver
from starforge_console.ingest.streams import Stores
from starforge_console.ledger.database import Database
from starforge_console.ledger.reports import ReportingAttempt
from starforge_console.telemetry.metrics import IngestCounters
from starforge_console.wakeups import Wakeups

LINES = 400
CONTENT = {
    "log": b"".join(b"line %d of the log\n" % number for number in range(40_000)),
    "metrics": b"".join(metrics_line(step, step / 2) for step in range(LINES)),
    "events": b"".join(event_line("note", code="x", message=f"note {n}") for n in range(LINES)),
}


async def no_words(_attempt: AttemptId) -> tuple[str, ...]:
    return ()


async def send(receiver: Receiver, attempt: ReportingAttempt) -> None:
    """Send every stream from its mark to its end, a little at a time."""
    await asyncio.gather(*(_send_stream(receiver, attempt, stream) for stream in CONTENT))


async def _send_stream(receiver: Receiver, attempt: ReportingAttempt, stream: str) -> None:
    at, content = (await receiver.find_mark(attempt, stream)).received_to, CONTENT[stream]
    while at < len(content):
        end = at + 1000 if stream == "log" else content.index(b"\n", at) + 1
        at = (await receiver.take(attempt, stream, at, content[at:end])).received_to


async def _main(folder: Path, text: str, number: int) -> None:
    attempt_id = parse_attempt_id(text)
    attempt = ReportingAttempt(id=attempt_id, job=job_of(attempt_id), number=number)
    stores = Stores(
        Database(place_of(folder / "ledger.db"), "ledger"),
        Database(place_of(folder / "series.db"), "series"),
        folder / "logs",
        Masker(no_words),
    )
    await send(Receiver(stores, Wakeups(), SystemClock(), IngestCounters(CollectorRegistry())), attempt)


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
