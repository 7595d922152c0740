"""What a copied ledger and series name outside of themselves: files of logs, and blobs of the storage."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from sqlalchemy import Connection, func, select

from starforge.contract.ids import Digest
from starforge_console.domain.retention import Kind
from starforge_console.ledger.kept_tables import removals
from starforge_console.ledger.tables import attempts, events, jobs, log_segments


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRange:
    """Bytes `from_byte` to `to_byte` of an attempt's stream, which lie at `position` of a file and have this CRC-32."""

    attempt: str
    stream: str
    from_byte: int
    to_byte: int
    position: int
    crc: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How much there is."""

    jobs: int
    attempts: int
    events: int


def count_rows(connection: Connection) -> Counts:
    """Of a ledger."""
    numbers = (
        connection.execute(select(func.count()).select_from(one)).scalar_one() for one in (jobs, attempts, events)
    )
    return Counts(**dict(zip(("jobs", "attempts", "events"), map(int, numbers), strict=True)))


def iterate_log_files(connection: Connection) -> Iterator[tuple[str, Sequence[LogRange]]]:
    """Each file that a series names, with the ranges in it, in order; one file at a time is held."""
    rows = connection.execution_options(yield_per=1000).execute(
        select(log_segments).order_by(log_segments.c.file, log_segments.c.position)
    )
    for file, some in groupby(rows, attrgetter("file")):
        yield (
            str(file),
            [
                LogRange(
                    attempt=row.attempt,
                    stream=row.stream,
                    from_byte=row.from_byte,
                    to_byte=row.to_byte,
                    position=row.position,
                    crc=row.crc,
                )
                for row in some
            ],
        )


def list_without_log(connection: Connection) -> frozenset[str]:
    """The attempts of a ledger whose log retention removed, or has begun to remove."""
    return frozenset(connection.execute(select(removals.c.attempt).where(removals.c.kind == Kind.LOG.value)).scalars())


def list_blobs(connection: Connection) -> list[Digest]:
    """Every blob that a job's workspace is."""
    found = select(jobs.c.workspace).where(jobs.c.workspace.is_not(None)).distinct().order_by(jobs.c.workspace)
    return [Digest(digest) for digest in connection.execute(found).scalars()]
