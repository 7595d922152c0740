"""What jobs report in bulk: how far each stream is received, and where the bytes of its log lie."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from starforge_console.ledger.points import delete_points
from starforge_console.ledger.samples import delete_samples
from starforge_console.ledger.tables import log_segments, streams


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Bytes `from_byte` to `to_byte` of a stream lie in `file` at `position`, with this CRC-32.

    `lines_before` is how many lines end before them; None where that was not counted yet.
    """

    from_byte: int
    to_byte: int
    file: str
    position: int
    crc: int
    lines_before: int | None = None


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
    return [build_segment(row) for row in rows]


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
    return None if row is None else build_segment(row)


def delete_series(connection: Connection, job_id: str, attempts: Iterable[str]) -> None:
    """Forget everything that the job reported."""
    delete_points(connection, job_id)
    delete_samples(connection, job_id)
    for attempt in attempts:
        for table in (streams, log_segments):
            connection.execute(delete(table).where(table.c.attempt == attempt))


def build_segment(row: Row[Any]) -> Segment:
    """The segment that a row of the index stands for."""
    return Segment(
        from_byte=row.from_byte,
        to_byte=row.to_byte,
        file=row.file,
        position=row.position,
        crc=row.crc,
        lines_before=row.lines_before,
    )
