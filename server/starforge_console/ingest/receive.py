"""Receives streams by byte offset: whatever is sent twice, overlapping or late, each byte counts once, in order."""

import asyncio
import contextlib
import itertools
from collections import OrderedDict
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from starforge.contract.bounds import BODY_BYTES
from starforge.contract.capsule import STREAM_EVENTS, STREAM_LOG, STREAM_METRICS
from starforge.contract.ids import AttemptId
from starforge.errors import InputError, NotFound
from starforge_console.clock import Clock
from starforge_console.errors import StreamClosed, StreamGap
from starforge_console.ingest.line_sinks import EventsSink, MetricsSink
from starforge_console.ingest.segments import LogSink
from starforge_console.ingest.streams import LINE_STREAMS, Mark, Piece, Sink, SkipSink, Stores, kind_of, list_streams
from starforge_console.ledger.reports import ReportingAttempt
from starforge_console.ledger.series import end_streams
from starforge_console.telemetry.metrics import IngestCounters
from starforge_console.wakeups import Wakeups, job_topic, stream_topic

OPEN_AT_MOST: Final = 4096
"""So many streams' marks are remembered; the others are read again when they are sent to."""
_THREADS: Final = 4
_BULK: Final = frozenset({STREAM_LOG, STREAM_METRICS})
"""What a full disk is kept from; events are few and bounded."""

_Key = tuple[AttemptId, str]


@dataclass(frozen=True, slots=True)
class Received:
    """The stream is durable up to this byte."""

    received_to: int


@dataclass(slots=True)
class _Open:
    """A stream that is sent to: one sender at a time, and the mark as far as it is known."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    mark: Mark | None = None
    users: int = 0


class Receiver:
    """Makes streams durable. One a process; its coroutines belong to one event loop."""

    def __init__(self, stores: Stores, wakeups: Wakeups, clock: Clock, counters: IngestCounters) -> None:
        self._stores = stores
        self._wakeups = wakeups
        self._counters = counters
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="ingest")
        self._events = EventsSink(stores, clock, counters, self._threads)
        self._metrics = MetricsSink(stores, clock, counters, self._threads)
        self._log = LogSink(stores, clock, self._threads)
        self._new_log = partial(LogSink, stores, clock, self._threads)
        self._sinks: dict[str, Sink] = {
            STREAM_LOG: self._log,
            STREAM_METRICS: self._metrics,
            STREAM_EVENTS: self._events,
        }
        self._open: OrderedDict[_Key, _Open] = OrderedDict()
        self._running: set[asyncio.Task[Received]] = set()

    async def take(self, attempt: ReportingAttempt, stream: str, offset: int, content: bytes) -> Received:
        """Make `content`, the stream's bytes from `offset` on, durable; what is durable already is left out.

        Of lines, the whole ones are taken. What was begun is finished even when the caller is cancelled.

        Raises:
            NotFound: there is no such stream.
            InputError: a negative offset, too much content, or content of lines without a single end of line.
            StreamGap: bytes before `offset` are missing.
            StreamClosed: the stream was read to its end already.
            Busy, Unavailable: try again; nothing was lost.

        """
        _check(attempt, stream, offset, content)
        return await self._finish(self._take(attempt, stream, offset, content))

    async def skip(self, attempt: ReportingAttempt, stream: str, offset: int, length: int) -> Received:
        """Pass over bytes of a stream of lines that are no line; tells so once."""
        return await self._finish(self._skip(attempt, stream, offset, length))

    async def pass_over(self, attempt: ReportingAttempt, offset: int, to: int) -> Received:
        """Count bytes of the log as received that are not kept, because more follow than there is room for."""
        return await self._finish(self._pass_over(attempt, offset, to))

    async def find_mark(self, attempt: ReportingAttempt, stream: str) -> Mark:
        """Up to which byte the stream is durable, and whether it has ended."""
        async with self._turn(attempt, stream) as opened:
            return await self._mark_of(attempt, stream, opened)

    async def end(self, attempt: ReportingAttempt) -> None:
        """Take no more of any of the attempt's streams, and let their readers know."""
        streams = list_streams(attempt.nodes)
        await self._stores.series.write(lambda c: end_streams(c, attempt.id, streams))
        for stream in streams:
            async with self._turn(attempt, stream) as opened:
                opened.mark = None
                self._sink(stream).forget(attempt.id)
        self._wakeups.notify(job_topic(attempt.job), *(stream_topic(attempt.id, stream) for stream in streams))

    async def close(self) -> None:
        """Finish what is being made durable and end the threads."""
        await asyncio.gather(*self._running, return_exceptions=True)
        self._threads.shutdown(wait=True)

    async def _finish(self, work: Coroutine[Any, Any, Received]) -> Received:
        # A caller that leaves between the file and the index would leave the two apart for the next one.
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    async def _take(self, attempt: ReportingAttempt, stream: str, offset: int, content: bytes) -> Received:
        async with self._turn(attempt, stream) as opened:
            mark = await self._mark_of(attempt, stream, opened)
            if offset > mark.received_to:
                raise StreamGap(mark.received_to)
            news = content[mark.received_to - offset :]
            if not news:
                return Received(mark.received_to)
            if mark.ended:
                raise StreamClosed(f"{stream} of attempt {attempt.id} was read to its end")
            if kind_of(stream) in _BULK:
                self._stores.bounds.check_space(self._stores.logs_dir.parent)
            opened.mark = None  # whatever happens now, the disk knows better
            to = await self._sink(stream).keep(Piece(attempt, mark.received_to, news))
            opened.mark = Mark(to, ended=False)
        self._counters.received_bytes.labels(kind_of(stream)).inc(to - mark.received_to)
        self._notify(attempt, stream)
        return Received(to)

    async def _skip(self, attempt: ReportingAttempt, stream: str, offset: int, length: int) -> Received:
        sink: SkipSink = self._events if stream == STREAM_EVENTS else self._metrics
        async with self._turn(attempt, stream) as opened:
            mark = await self._mark_of(attempt, stream, opened)
            if mark.received_to != offset or mark.ended:
                return Received(mark.received_to)
            opened.mark = None
            to = await sink.skip(attempt, offset, offset + length)
            opened.mark = Mark(to, ended=False)
        return Received(to)

    async def _pass_over(self, attempt: ReportingAttempt, offset: int, to: int) -> Received:
        async with self._turn(attempt, STREAM_LOG) as opened:
            mark = await self._mark_of(attempt, STREAM_LOG, opened)
            if mark.received_to != offset or mark.ended:
                return Received(mark.received_to)
            opened.mark = None
            opened.mark = Mark(await self._log.pass_over(attempt, offset, to), ended=False)
        self._notify(attempt, STREAM_LOG)
        return Received(to)

    def _sink(self, stream: str) -> Sink:
        if stream not in self._sinks:
            self._sinks[stream] = self._new_log(stream)
        return self._sinks[stream]

    async def _mark_of(self, attempt: ReportingAttempt, stream: str, opened: _Open) -> Mark:
        if opened.mark is None:
            opened.mark = await self._sink(stream).load_mark(attempt)
        return opened.mark

    @contextlib.asynccontextmanager
    async def _turn(self, attempt: ReportingAttempt, stream: str) -> AsyncIterator[_Open]:
        key = (attempt.id, stream)
        opened = self._open.setdefault(key, _Open())
        self._open.move_to_end(key)
        opened.users += 1
        try:
            async with opened.turn:
                yield opened
        finally:
            opened.users -= 1
            self._close_idle()

    def _close_idle(self) -> None:
        for key in [*itertools.islice(self._open, max(0, len(self._open) - OPEN_AT_MOST))]:
            if self._open[key].users == 0:
                del self._open[key]
                self._sink(key[1]).forget(key[0])

    def _notify(self, attempt: ReportingAttempt, stream: str) -> None:
        topics = [stream_topic(attempt.id, stream)]
        if stream == STREAM_EVENTS:
            topics.append(job_topic(attempt.job))
        self._wakeups.notify(*topics)


def _check(attempt: ReportingAttempt, stream: str, offset: int, content: bytes) -> None:
    there = list_streams(attempt.nodes)
    if stream not in there:
        raise NotFound(f"there is no stream {stream!r:.80}", why=f"the attempt has {', '.join(there)[:400]}")
    if offset < 0:
        raise InputError(f"the offset {offset} is negative", next_step="count the stream's bytes from 0")
    if len(content) > BODY_BYTES:
        raise InputError(f"{len(content)} bytes at once", why=f"at most {BODY_BYTES} are taken", next_step="send less")
    if stream in LINE_STREAMS and content and b"\n" not in content:
        raise InputError(f"{len(content)} bytes of {stream} without an end of line", next_step="send whole lines")
