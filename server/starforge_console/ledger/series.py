"""What jobs report in bulk: how far each stream is received, where its log bytes lie, and the points of its curves."""

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, Row, delete, insert, select, update

from starforge_console.ledger.tables import log_segments, metric_chunks, metric_keys, streams

CHUNK_POINTS: Final = 1024
"""A chunk is closed when it holds this many points; the open one is rewritten as points arrive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Bytes `from_byte` to `to_byte` of a stream lie in `file` at `position`, with this CRC-32."""

    from_byte: int
    to_byte: int
    file: str
    position: int
    crc: int


@dataclass(slots=True)
class Columns:
    """Points of one key in columns of equal length."""

    steps: "array[int]"
    values: "array[float]"
    times: "array[float]"

    @classmethod
    def empty(cls) -> "Columns":
        """No points."""
        return cls(array("q"), array("d"), array("d"))

    def __len__(self) -> int:
        return len(self.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkSummary:
    """What a long curve is drawn from instead of the points themselves. Values are None where all are NaN."""

    number: int
    attempt: int
    count: int
    first_step: int
    last_step: int
    min_step: int
    min_value: float | None
    max_step: int
    max_value: float | None


def received_to(connection: Connection, attempt: str, stream: str) -> int:
    """Up to which byte the stream is durable here."""
    known = connection.execute(
        select(streams.c.received_to).where(streams.c.attempt == attempt, streams.c.stream == stream)
    ).scalar()
    return known or 0


def stream_state(connection: Connection, attempt: str, stream: str) -> tuple[int, bool]:
    """Up to which byte the stream is durable here, and whether nothing will follow."""
    row = connection.execute(
        select(streams.c.received_to, streams.c.ended).where(streams.c.attempt == attempt, streams.c.stream == stream)
    ).first()
    return (0, False) if row is None else (row.received_to, row.ended)


def advance_stream(connection: Connection, attempt: str, stream: str, before: int, to: int) -> bool:
    """Move the mark from `before` to `to`; False when it stands elsewhere by now."""
    here = (streams.c.attempt == attempt) & (streams.c.stream == stream)
    if connection.execute(select(streams.c.attempt).where(here)).first() is None:
        if before != 0:
            return False
        connection.execute(insert(streams).values(attempt=attempt, stream=stream, received_to=to, ended=False))
        return True
    moved = connection.execute(update(streams).where(here, streams.c.received_to == before).values(received_to=to))
    return moved.rowcount > 0


def end_streams(connection: Connection, attempt: str, names: Iterable[str]) -> None:
    """Record that nothing will follow on these streams."""
    for stream in names:
        here = (streams.c.attempt == attempt) & (streams.c.stream == stream)
        if connection.execute(update(streams).where(here).values(ended=True)).rowcount == 0:
            connection.execute(insert(streams).values(attempt=attempt, stream=stream, received_to=0, ended=True))


def add_segment(connection: Connection, attempt: str, stream: str, segment: Segment) -> None:
    """Index bytes that are already on disk."""
    connection.execute(
        insert(log_segments).values(
            attempt=attempt,
            stream=stream,
            from_byte=segment.from_byte,
            to_byte=segment.to_byte,
            file=segment.file,
            position=segment.position,
            crc=segment.crc,
        )
    )


def list_segments(connection: Connection, attempt: str, stream: str, from_byte: int, limit: int) -> Sequence[Segment]:
    """The next `limit` segments that reach past `from_byte`, in order."""
    rows = connection.execute(
        select(log_segments)
        .where(log_segments.c.attempt == attempt, log_segments.c.stream == stream, log_segments.c.to_byte > from_byte)
        .order_by(log_segments.c.from_byte)
        .limit(limit)
    ).all()
    return [
        Segment(from_byte=row.from_byte, to_byte=row.to_byte, file=row.file, position=row.position, crc=row.crc)
        for row in rows
    ]


def add_points(connection: Connection, job_id: str, attempt: int, points: Mapping[str, Columns]) -> None:
    """Append points to the curves of a job, key by key."""
    for key, columns in points.items():
        _append(connection, job_id, key, attempt, columns)


def list_keys(connection: Connection, job_id: str) -> dict[str, int]:
    """The keys that the job has reported, and how many points each has."""
    rows = connection.execute(
        select(metric_keys.c.key, metric_keys.c.points)
        .where(metric_keys.c.job_id == job_id)
        .order_by(metric_keys.c.key)
    ).all()
    return {row.key: row.points for row in rows}


def list_summaries(connection: Connection, job_id: str, key: str) -> Sequence[ChunkSummary]:
    """The summaries of a key's chunks, in order of arrival."""
    columns = [metric_chunks.c[name] for name in ChunkSummary.__dataclass_fields__]
    rows = connection.execute(
        select(*columns)
        .where(metric_chunks.c.job_id == job_id, metric_chunks.c.key == key)
        .order_by(metric_chunks.c.number)
    ).all()
    return [ChunkSummary(**dict(row._mapping)) for row in rows]  # noqa: SLF001 - the documented way to a row's names


def load_points(connection: Connection, job_id: str, key: str) -> Sequence[tuple[int, Columns]]:
    """All points of a key as (attempt number, columns), in order of arrival."""
    rows = connection.execute(
        select(metric_chunks)
        .where(metric_chunks.c.job_id == job_id, metric_chunks.c.key == key)
        .order_by(metric_chunks.c.number)
    ).all()
    return [(row.attempt, _unpack(row)) for row in rows]


def delete_series(connection: Connection, job_id: str, attempts: Iterable[str]) -> None:
    """Forget everything that the job reported."""
    for table in (metric_chunks, metric_keys):
        connection.execute(delete(table).where(table.c.job_id == job_id))
    for attempt in attempts:
        for table in (streams, log_segments):
            connection.execute(delete(table).where(table.c.attempt == attempt))


def _append(connection: Connection, job_id: str, key: str, attempt: int, columns: Columns) -> None:
    here = (metric_keys.c.job_id == job_id) & (metric_keys.c.key == key)
    known = connection.execute(select(metric_keys.c.points, metric_keys.c.chunks).where(here)).first()
    chunks = known.chunks if known is not None else 0
    pending = columns
    if chunks:
        last = (metric_chunks.c.job_id == job_id) & (metric_chunks.c.key == key) & (metric_chunks.c.number == chunks)
        row = connection.execute(select(metric_chunks).where(last)).one()
        if row.attempt == attempt and row._mapping["count"] < CHUNK_POINTS:  # noqa: SLF001 - `count` is a method of rows
            connection.execute(delete(metric_chunks).where(last))
            pending = _join(_unpack(row), columns)
            chunks -= 1
    for start in range(0, len(pending), CHUNK_POINTS):
        chunks += 1
        _insert_chunk(connection, (job_id, key, chunks, attempt), _slice(pending, start, start + CHUNK_POINTS))
    if known is None:
        connection.execute(insert(metric_keys).values(job_id=job_id, key=key, points=len(columns), chunks=chunks))
    else:
        connection.execute(update(metric_keys).where(here).values(points=known.points + len(columns), chunks=chunks))


def _insert_chunk(connection: Connection, place: tuple[str, str, int, int], columns: Columns) -> None:
    job_id, key, number, attempt = place
    finite = [(value, step) for value, step in zip(columns.values, columns.steps, strict=True) if not math.isnan(value)]
    low, high = (min(finite), max(finite)) if finite else ((None, columns.steps[0]), (None, columns.steps[0]))
    connection.execute(
        insert(metric_chunks).values(
            job_id=job_id,
            key=key,
            number=number,
            attempt=attempt,
            count=len(columns),
            first_step=columns.steps[0],
            last_step=columns.steps[-1],
            min_value=low[0],
            min_step=low[1],
            max_value=high[0],
            max_step=high[1],
            steps=columns.steps.tobytes(),
            values=columns.values.tobytes(),
            times=columns.times.tobytes(),
        )
    )


def _unpack(row: Row[tuple[object, ...]]) -> Columns:
    fields = row._mapping  # noqa: SLF001 - `values` and `count` are methods of rows
    columns = Columns.empty()
    columns.steps.frombytes(fields["steps"])
    columns.values.frombytes(fields["values"])
    columns.times.frombytes(fields["times"])
    return columns


def _join(first: Columns, second: Columns) -> Columns:
    return Columns(first.steps + second.steps, first.values + second.values, first.times + second.times)


def _slice(columns: Columns, start: int, end: int) -> Columns:
    return Columns(columns.steps[start:end], columns.values[start:end], columns.times[start:end])
