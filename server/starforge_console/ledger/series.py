"""What jobs report in bulk: how far each stream is received, where its log bytes lie, and the points of its curves."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from sqlalchemy import Connection, Row, bindparam, delete, func, insert, select, update

from starforge_console.domain.points import Columns, Point, Summary, build_summary
from starforge_console.ledger.tables import log_segments, metric_chunks, metric_keys, streams

CHUNK_POINTS: Final = 1024
"""A chunk is closed when it holds this many points; the open one is rewritten as points arrive."""
KEYS_AT_MOST: Final = 5000
"""So many curves a job may have; points of further keys are not kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Bytes `from_byte` to `to_byte` of a stream lie in `file` at `position`, with this CRC-32."""

    from_byte: int
    to_byte: int
    file: str
    position: int
    crc: int


@dataclass(frozen=True, slots=True)
class ChunkSummary:
    """What a long curve is drawn from instead of the points themselves."""

    number: int
    attempt: int
    summary: Summary


def stream_state(connection: Connection, attempt: str, stream: str) -> tuple[int, bool]:
    """Up to which byte the stream is durable here, and whether nothing will follow."""
    row = connection.execute(
        select(streams.c.received_to, streams.c.ended).where(streams.c.attempt == attempt, streams.c.stream == stream)
    ).first()
    return (0, False) if row is None else (row.received_to, row.ended)


def advance_stream(connection: Connection, attempt: str, stream: str, before: int, to: int) -> bool:
    """Move the mark from `before` to `to`; False when it stands elsewhere by now, or the stream has ended."""
    here = (streams.c.attempt == attempt) & (streams.c.stream == stream)
    if connection.execute(select(streams.c.attempt).where(here)).first() is None:
        if before != 0:
            return False
        connection.execute(insert(streams).values(attempt=attempt, stream=stream, received_to=to, ended=False))
        return True
    moved = connection.execute(
        update(streams).where(here, streams.c.received_to == before, ~streams.c.ended).values(received_to=to)
    )
    return moved.rowcount > 0


def end_streams(connection: Connection, attempt: str, names: Iterable[str]) -> None:
    """Record that nothing will follow on these streams."""
    for stream in names:
        here = (streams.c.attempt == attempt) & (streams.c.stream == stream)
        if connection.execute(update(streams).where(here).values(ended=True)).rowcount == 0:
            connection.execute(insert(streams).values(attempt=attempt, stream=stream, received_to=0, ended=True))


def keep_segment(connection: Connection, attempt: str, stream: str, segment: Segment, before: int) -> bool:
    """Index bytes that are on disk and move the mark from `before` to the segment's end.

    A segment that starts where a kept one does takes its place. False, with nothing done, when the mark stands
    elsewhere by now.
    """
    if not advance_stream(connection, attempt, stream, before, segment.to_byte):
        return False
    here = (log_segments.c.attempt == attempt) & (log_segments.c.stream == stream)
    extended = connection.execute(
        update(log_segments)
        .where(here, log_segments.c.from_byte == segment.from_byte)
        .values(to_byte=segment.to_byte, crc=segment.crc)
    )
    if extended.rowcount == 0:
        connection.execute(insert(log_segments).values(attempt=attempt, stream=stream, **asdict(segment)))
    return True


def list_segments(connection: Connection, attempt: str, stream: str, from_byte: int, limit: int) -> Sequence[Segment]:
    """The next `limit` segments that reach past `from_byte`, in order."""
    rows = connection.execute(
        select(log_segments)
        .where(log_segments.c.attempt == attempt, log_segments.c.stream == stream, log_segments.c.to_byte > from_byte)
        .order_by(log_segments.c.from_byte)
        .limit(limit)
    ).all()
    return [_segment(row) for row in rows]


def list_files(connection: Connection, attempt: str, stream: str) -> list[tuple[str, int, int]]:
    """(file, how long it must be, how many bytes are indexed in it) of each file that holds a part of the stream."""
    size_bytes = log_segments.c.to_byte - log_segments.c.from_byte
    rows = connection.execute(
        select(log_segments.c.file, func.max(log_segments.c.position + size_bytes), func.sum(size_bytes))
        .where(log_segments.c.attempt == attempt, log_segments.c.stream == stream)
        .group_by(log_segments.c.file)
    ).all()
    return [(file, int(end), int(indexed)) for file, end, indexed in rows]


def find_tail(connection: Connection, attempt: str, stream: str) -> Segment | None:
    """The segment that reaches furthest, if there is any."""
    row = connection.execute(
        select(log_segments)
        .where(log_segments.c.attempt == attempt, log_segments.c.stream == stream)
        .order_by(log_segments.c.from_byte.desc())
        .limit(1)
    ).first()
    return None if row is None else _segment(row)


def add_points(connection: Connection, job_id: str, attempt: int, points: Mapping[str, Columns]) -> int:
    """Append points to the curves of a job; gives how many were not kept because the job has too many curves.

    All keys go in a handful of statements: a small send of many keys costs about as much as one of a single key.
    """
    known = _load_keys(connection, job_id, list(points))
    kept, refused = _admit_keys(connection, job_id, points, known)
    opened = _load_open_chunks(connection, job_id, attempt, known)
    rows: list[dict[str, Any]] = []
    keys: list[dict[str, Any]] = []
    for key, columns in kept.items():
        count, chunks = known.get(key, (0, 0))
        pending = opened.get(key, Columns.empty())
        chunks -= 1 if key in opened else 0
        pending.extend(columns)
        for start in range(0, len(pending), CHUNK_POINTS):
            chunks += 1
            chunk = _build_chunk(pending.part(start, start + CHUNK_POINTS))
            rows.append({"job_id": job_id, "key": key, "number": chunks, "attempt": attempt, **chunk})
        keys.append({"b_key": key, "b_points": count + len(columns), "b_chunks": chunks})
    _replace_chunks(connection, job_id, [(key, known[key][1]) for key in opened], rows)
    _write_keys(connection, job_id, keys, known)
    return refused


def list_keys(connection: Connection, job_id: str) -> dict[str, int]:
    """The keys that the job has reported, and how many points each has."""
    rows = connection.execute(
        select(metric_keys.c.key, metric_keys.c.points)
        .where(metric_keys.c.job_id == job_id)
        .order_by(metric_keys.c.key)
    ).all()
    return {row.key: row.points for row in rows}


def list_summaries(connection: Connection, job_id: str, key: str) -> list[ChunkSummary]:
    """The summaries of a key's chunks, in order of arrival."""
    rows = connection.execute(
        select(*[metric_chunks.c[name] for name in _SUMMARY_COLUMNS])
        .where(metric_chunks.c.job_id == job_id, metric_chunks.c.key == key)
        .order_by(metric_chunks.c.number)
    ).all()
    return [_chunk_summary(row) for row in rows]


def load_chunks(connection: Connection, job_id: str, key: str, numbers: Iterable[int]) -> dict[int, Columns]:
    """The points of the chunks of these numbers."""
    wanted = sorted(numbers)
    chunks: dict[int, Columns] = {}
    for start in range(0, len(wanted), _NUMBERS_A_QUERY):
        rows = connection.execute(
            select(
                metric_chunks.c.number, metric_chunks.c.steps, metric_chunks.c["values"], metric_chunks.c.times
            ).where(
                metric_chunks.c.job_id == job_id,
                metric_chunks.c.key == key,
                metric_chunks.c.number.in_(wanted[start : start + _NUMBERS_A_QUERY]),
            )
        ).all()
        chunks.update((number, Columns.unpack(*packed)) for number, *packed in rows)
    return chunks


def delete_series(connection: Connection, job_id: str, attempts: Iterable[str]) -> None:
    """Forget everything that the job reported."""
    for table in (metric_chunks, metric_keys):
        connection.execute(delete(table).where(table.c.job_id == job_id))
    for attempt in attempts:
        for table in (streams, log_segments):
            connection.execute(delete(table).where(table.c.attempt == attempt))


_NUMBERS_A_QUERY: Final = 500
_NAMES_A_QUERY: Final = 500
_SUMMARY_COLUMNS: Final = (
    *("number", "attempt", "count", "first_step", "last_step"),
    *("min_step", "min_value", "min_time", "max_step", "max_value", "max_time", "nan_step", "nan_time"),
)


def _segment(row: Row[Any]) -> Segment:
    return Segment(from_byte=row.from_byte, to_byte=row.to_byte, file=row.file, position=row.position, crc=row.crc)


def _chunk_summary(row: Row[Any]) -> ChunkSummary:
    number, attempt, count, first_step, last_step, *extremes = tuple(row)
    min_step, min_value, min_time, max_step, max_value, max_time, nan_step, nan_time = extremes
    return ChunkSummary(
        number,
        attempt,
        Summary(
            count=count,
            first_step=first_step,
            last_step=last_step,
            low=None if min_step is None else Point(min_step, min_value, min_time),
            high=None if max_step is None else Point(max_step, max_value, max_time),
            nan=None if nan_step is None else Point(nan_step, math.nan, nan_time),
        ),
    )


def _load_keys(connection: Connection, job_id: str, keys: Sequence[str]) -> dict[str, tuple[int, int]]:
    """(points, chunks) of those of `keys` that the job has."""
    known: dict[str, tuple[int, int]] = {}
    for start in range(0, len(keys), _NAMES_A_QUERY):
        rows = connection.execute(
            select(metric_keys.c.key, metric_keys.c.points, metric_keys.c.chunks).where(
                metric_keys.c.job_id == job_id, metric_keys.c.key.in_(keys[start : start + _NAMES_A_QUERY])
            )
        ).all()
        known.update((row.key, (row.points, row.chunks)) for row in rows)
    return known


def _admit_keys(
    connection: Connection, job_id: str, points: Mapping[str, Columns], known: Mapping[str, object]
) -> tuple[dict[str, Columns], int]:
    """Those of `points` that there is room for, and how many points are left out."""
    new = [key for key in points if key not in known]
    if not new:
        return dict(points), 0
    counted = select(func.count()).select_from(metric_keys).where(metric_keys.c.job_id == job_id)
    room = max(0, KEYS_AT_MOST - connection.execute(counted).scalar_one())
    refused = set(new[room:])
    kept = {key: columns for key, columns in points.items() if key not in refused}
    return kept, sum(len(points[key]) for key in refused)


def _load_open_chunks(connection: Connection, job_id: str, attempt: int, keys: Iterable[str]) -> dict[str, Columns]:
    """The points of each key's last chunk where it is this attempt's and not full."""
    wanted = list(keys)
    opened: dict[str, Columns] = {}
    for start in range(0, len(wanted), _NAMES_A_QUERY):
        is_last = (metric_keys.c.job_id == metric_chunks.c.job_id) & (metric_keys.c.key == metric_chunks.c.key)
        rows = connection.execute(
            select(metric_chunks.c.key, metric_chunks.c.steps, metric_chunks.c["values"], metric_chunks.c.times)
            .select_from(metric_keys)
            .join(metric_chunks, is_last & (metric_keys.c.chunks == metric_chunks.c.number))
            .where(
                metric_keys.c.job_id == job_id,
                metric_keys.c.key.in_(wanted[start : start + _NAMES_A_QUERY]),
                metric_chunks.c.attempt == attempt,
                metric_chunks.c["count"] < CHUNK_POINTS,
            )
        ).all()
        opened.update((key, Columns.unpack(*packed)) for key, *packed in rows)
    return opened


def _replace_chunks(
    connection: Connection, job_id: str, taken: Sequence[tuple[str, int]], rows: Sequence[dict[str, Any]]
) -> None:
    if taken:
        connection.execute(
            delete(metric_chunks).where(
                metric_chunks.c.job_id == job_id,
                metric_chunks.c.key == bindparam("b_key"),
                metric_chunks.c.number == bindparam("b_number"),
            ),
            [{"b_key": key, "b_number": number} for key, number in taken],
        )
    if rows:
        connection.execute(insert(metric_chunks), rows)


def _write_keys(
    connection: Connection, job_id: str, keys: Sequence[dict[str, Any]], known: Mapping[str, object]
) -> None:
    changed = [row for row in keys if row["b_key"] in known]
    if changed:
        here = (metric_keys.c.job_id == job_id) & (metric_keys.c.key == bindparam("b_key"))
        connection.execute(
            update(metric_keys).where(here).values(points=bindparam("b_points"), chunks=bindparam("b_chunks")), changed
        )
    new = [
        {"job_id": job_id, "key": row["b_key"], "points": row["b_points"], "chunks": row["b_chunks"]}
        for row in keys
        if row["b_key"] not in known
    ]
    if new:
        connection.execute(insert(metric_keys), new)


def _build_chunk(columns: Columns) -> dict[str, Any]:
    summary = build_summary(columns)
    low, high, nan = summary.low, summary.high, summary.nan
    return {
        "count": summary.count,
        "first_step": summary.first_step,
        "last_step": summary.last_step,
        "min_step": low and low.step,
        "min_value": low and low.value,
        "min_time": low and low.time,
        "max_step": high and high.step,
        "max_value": high and high.value,
        "max_time": high and high.time,
        "nan_step": nan and nan.step,
        "nan_time": nan and nan.time,
        "steps": columns.steps.tobytes(),
        "values": columns.values.tobytes(),
        "times": columns.times.tobytes(),
    }
