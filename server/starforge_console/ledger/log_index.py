"""The index of a log: which segment holds a byte or a line, what is missing between segments, and what is let go."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, Select, delete, func, select, update

from starforge_console.ledger.series import Segment, build_segment
from starforge_console.ledger.tables import log_segments


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file that holds a part of a stream: from which byte on, and how many bytes are indexed in it."""

    file: str
    from_byte: int
    indexed_bytes: int


def find_segment_of_byte(connection: Connection, attempt: str, stream: str, byte: int) -> Segment | None:
    """The last segment that begins at or before the byte; it may end before it."""
    wanted = _of(attempt, stream).where(log_segments.c.from_byte <= byte)
    return _last(connection, wanted)


def find_segment_of_end(connection: Connection, attempt: str, stream: str, ends: int) -> Segment | None:
    """The segment that holds the `ends`-th end of a line, if it is kept; all segments must be numbered."""
    wanted = _of(attempt, stream).where(log_segments.c.lines_before < ends)
    return _last(connection, wanted)


def find_unnumbered(connection: Connection, attempt: str, stream: str, limit: int) -> Sequence[Segment]:
    """The first segments of which it is not known how many lines end before them, in order."""
    wanted = _of(attempt, stream).where(log_segments.c.lines_before.is_(None)).order_by(log_segments.c.from_byte)
    return [build_segment(row) for row in connection.execute(wanted.limit(limit)).all()]


def number_segments(connection: Connection, attempt: str, stream: str, lines_before: Mapping[int, int]) -> None:
    """Keep the numbers of segments, named by their first byte; one that has a number keeps it."""
    for from_byte, lines in lines_before.items():
        connection.execute(
            update(log_segments)
            .where(
                log_segments.c.attempt == attempt,
                log_segments.c.stream == stream,
                log_segments.c.from_byte == from_byte,
                log_segments.c.lines_before.is_(None),
            )
            .values(lines_before=lines)
        )


def list_gaps(connection: Connection, attempt: str, stream: str, to: int) -> list[tuple[int, int]]:
    """The ranges of bytes before `to` that no segment holds, in order."""
    rows = (
        select(
            func.lag(log_segments.c.to_byte, 1, 0).over(order_by=log_segments.c.from_byte).label("before"),
            log_segments.c.from_byte.label("begin"),
        )
        .where(log_segments.c.attempt == attempt, log_segments.c.stream == stream)
        .subquery()
    )
    between = connection.execute(select(rows).where(rows.c.before < rows.c.begin).order_by(rows.c.begin)).all()
    last = _last(connection, _of(attempt, stream))
    end = 0 if last is None else last.to_byte
    gaps = [(int(before), int(begin)) for before, begin in between]
    return [*gaps, (end, to)] if end < to else gaps


def list_log_files(connection: Connection, attempt: str, stream: str) -> list[LogFile]:
    """The files of the stream, in the order of their bytes."""
    begin = func.min(log_segments.c.from_byte)
    rows = connection.execute(
        select(log_segments.c.file, begin, func.sum(log_segments.c.to_byte - log_segments.c.from_byte))
        .where(log_segments.c.attempt == attempt, log_segments.c.stream == stream)
        .group_by(log_segments.c.file)
        .order_by(begin)
    ).all()
    return [LogFile(file, int(first), int(indexed)) for file, first, indexed in rows]


def list_segments_of_file(connection: Connection, attempt: str, stream: str, file: str) -> Sequence[Segment]:
    """What lies in one file, in order."""
    wanted = _of(attempt, stream).where(log_segments.c.file == file).order_by(log_segments.c.from_byte)
    return [build_segment(row) for row in connection.execute(wanted).all()]


def drop_file(connection: Connection, attempt: str, stream: str, file: str) -> None:
    """Forget what lies in one file: its bytes are missing from now on."""
    connection.execute(
        delete(log_segments).where(
            log_segments.c.attempt == attempt, log_segments.c.stream == stream, log_segments.c.file == file
        )
    )


def _of(attempt: str, stream: str) -> "Select[tuple[object, ...]]":
    return select(log_segments).where(log_segments.c.attempt == attempt, log_segments.c.stream == stream)


def _last(connection: Connection, wanted: "Select[tuple[object, ...]]") -> Segment | None:
    row = connection.execute(wanted.order_by(log_segments.c.from_byte.desc()).limit(1)).first()
    return None if row is None else build_segment(row)
