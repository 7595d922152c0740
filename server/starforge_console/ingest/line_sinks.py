"""Metrics and events: lines become points of curves, entries of the timeline and outputs, each exactly once.

The mark of a stream moves in the same transaction as what its lines say, so that a crash between two writes is none.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Final, TypeVar

from starforge.contract.capsule import STREAM_EVENTS, STREAM_METRICS
from starforge.contract.ids import AttemptId
from starforge_console.clock import Clock
from starforge_console.domain.samples import Sample
from starforge_console.ingest.lines import read_events, read_metrics
from starforge_console.ingest.streams import Mark, Piece, Stores, StreamMoved
from starforge_console.ledger.points import KEYS_AT_MOST, add_points
from starforge_console.ledger.reports import ReportingAttempt, Reports, events_received_to, note_reports, tell_once
from starforge_console.ledger.samples import BYTES_AT_MOST, REPORTS_AT_MOST, keep_samples
from starforge_console.ledger.series import advance_stream, stream_state
from starforge_console.telemetry.metrics import IngestCounters

EVENTS_A_WRITE_BYTES: Final = 128 << 10
"""The ledger's writer is never held longer than so many bytes of events take."""
_THREAD_FROM_BYTES: Final = 16 << 10

ReadT = TypeVar("ReadT")


class MetricsSink:
    """Turns lines of metrics into points."""

    def __init__(self, stores: Stores, clock: Clock, counters: IngestCounters, threads: Executor) -> None:
        self._stores = stores
        self._clock = clock
        self._counters = counters
        self._threads = threads

    async def load_mark(self, attempt: ReportingAttempt) -> Mark:
        """The mark as it is on disk."""
        return Mark(*await self._stores.series.read(lambda c: stream_state(c, attempt.id, STREAM_METRICS)))

    async def keep(self, piece: Piece) -> int:
        """Keep the points of the piece's whole lines."""
        whole = piece.content[: piece.content.rfind(b"\n") + 1]
        to = piece.at + len(whole)
        read = await _decode(self._threads, lambda: read_metrics(whole, piece.at), len(whole))
        if read.dropped:
            self._counters.dropped_lines.labels(STREAM_METRICS).inc(read.dropped)
            await self._tell(piece.attempt, ("metrics_line", _complaint("metrics", read.fault)))
        attempt = piece.attempt
        points = (await self._stores.masker.of(attempt.id)).clean_keys(read.points)
        refused = await self._stores.series.write(
            lambda c: (
                add_points(c, attempt.job, attempt.number, points)
                if advance_stream(c, attempt.id, STREAM_METRICS, piece.at, to)
                else None
            )
        )
        if refused is None:
            raise StreamMoved
        self._counters.points.inc(read.count - refused)
        if refused:
            text = f"the job has {KEYS_AT_MOST} curves: points of further keys are not kept"
            await self._tell(attempt, ("many_keys", text))
        return to

    async def skip(self, attempt: ReportingAttempt, at: int, to: int) -> int:
        """Move the mark over bytes that are no line."""
        self._counters.dropped_lines.labels(STREAM_METRICS).inc()
        await self._tell(attempt, ("metrics_line", _complaint("metrics", _cut_off(at, to))))
        if not await self._stores.series.write(lambda c: advance_stream(c, attempt.id, STREAM_METRICS, at, to)):
            raise StreamMoved
        return to

    def forget(self, attempt: AttemptId) -> None:
        """Nothing is remembered."""

    async def _tell(self, attempt: ReportingAttempt, told: tuple[str, str]) -> None:
        now, (code, text) = self._clock.now(), told
        text = (await self._stores.masker.of(attempt.id)).clean(text)
        await self._stores.ledger.write(lambda c: tell_once(c, attempt, (code, text), now))


class EventsSink:
    """Turns events into entries of the timeline and outputs; the mark lives in the ledger, beside them."""

    def __init__(self, stores: Stores, clock: Clock, counters: IngestCounters, threads: Executor) -> None:
        self._stores = stores
        self._clock = clock
        self._counters = counters
        self._threads = threads

    async def load_mark(self, attempt: ReportingAttempt) -> Mark:
        """The mark as it is on disk."""
        _, ended = await self._stores.series.read(lambda c: stream_state(c, attempt.id, STREAM_EVENTS))
        return Mark(await self._stores.ledger.read(lambda c: events_received_to(c, attempt.id)), ended)

    async def keep(self, piece: Piece) -> int:
        """Tell the piece's whole lines, a bounded number a transaction."""
        at, rest = piece.at, piece.content[: piece.content.rfind(b"\n") + 1]
        while rest:
            end = rest.rfind(b"\n", 0, EVENTS_A_WRITE_BYTES) + 1 or rest.find(b"\n") + 1
            at = await self._tell(piece.attempt, at, rest[:end])
            rest = rest[end:]
        return at

    async def skip(self, attempt: ReportingAttempt, at: int, to: int) -> int:
        """Move the mark over bytes that are no line."""
        self._counters.dropped_lines.labels(STREAM_EVENTS).inc()
        told = ("events_line", _complaint("events", _cut_off(at, to)))
        return await self._write(attempt, Reports(before=at, to=to, notes=(), outputs=(), told=told))

    def forget(self, attempt: AttemptId) -> None:
        """Nothing is remembered."""

    async def _tell(self, attempt: ReportingAttempt, at: int, lines: bytes) -> int:
        read = await _decode(self._threads, lambda: read_events(lines, at), len(lines))
        told = None
        if read.dropped:
            self._counters.dropped_lines.labels(STREAM_EVENTS).inc(read.dropped)
            told = ("events_line", _complaint("events", read.fault))
        if read.samples:
            await self._keep_samples(attempt, read.samples)
        reports = Reports(
            before=at,
            to=at + len(lines),
            notes=read.notes,
            outputs=read.outputs,
            told=told,
            total_steps=read.total_steps,
        )
        return await self._write(attempt, reports)

    async def _keep_samples(self, attempt: ReportingAttempt, found: Sequence[Sample]) -> None:
        """Keep examples before the mark moves: read again after a crash they are here already."""
        mask = await self._stores.masker.of(attempt.id)
        cleaned = [one.clean(mask.clean) for one in found]
        refused = await self._stores.series.write(lambda c: keep_samples(c, attempt.job, attempt.number, cleaned))
        if refused:
            now = self._clock.now()
            text = (
                f"the job has reported {REPORTS_AT_MOST} examples or {BYTES_AT_MOST >> 20} MiB of them: "
                "further ones are not kept"
            )
            await self._stores.ledger.write(lambda c: tell_once(c, attempt, ("many_samples", text), now))

    async def _write(self, attempt: ReportingAttempt, reports: Reports) -> int:
        now, mask = self._clock.now(), await self._stores.masker.of(attempt.id)
        cleaned = mask.clean_reports(reports)
        if not await self._stores.ledger.write(lambda c: note_reports(c, attempt, cleaned, now)):
            raise StreamMoved
        return reports.to


async def _decode(threads: Executor, read: Callable[[], ReadT], size_bytes: int) -> ReadT:
    """Read small pieces here and large ones beside the event loop."""
    if size_bytes < _THREAD_FROM_BYTES:
        return read()
    return await asyncio.get_running_loop().run_in_executor(threads, read)


def _complaint(stream: str, fault: str) -> str:
    return f"a line of {stream} could not be used, {fault}. Such lines are dropped; this is said once"


def _cut_off(at: int, to: int) -> str:
    return f"at byte {at}: {to - at} bytes without a line's end, or a longer line than is taken"
