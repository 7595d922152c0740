"""Examples that jobs report, in the series: kept once however often they are read, and a bounded amount of a job."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from backports import zstd
from sqlalchemy import BigInteger, Connection, cast, delete, func, insert, select

from starforge_console.domain.samples import Sample
from starforge_console.ledger.kept_tables import samples

REPORTS_AT_MOST: Final = 5000
"""So many reports of one job are kept."""
BYTES_AT_MOST: Final = 64 << 20
"""So much text of one job is kept, before it is compressed."""

_ORDER: Final = cast(samples.c.attempt, BigInteger) * (1 << 32) + samples.c.at_byte
"""A later attempt's reports come after those of an earlier one; an attempt's number has four bytes, this has eight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleLine:
    """A report without its rows."""

    name: str
    step: int
    attempt: int
    at: float
    rows: int
    left_out: int


def keep_samples(connection: Connection, job_id: str, attempt: int, found: Sequence[Sample]) -> int:
    """Keep the reports that are not here yet; gives how many there was no room for."""
    refused = 0
    held, size_bytes = connection.execute(
        select(func.count(), func.coalesce(func.sum(samples.c.bytes), 0)).where(samples.c.job_id == job_id)
    ).one()
    for one in found:
        here = (samples.c.job_id == job_id) & (samples.c.attempt == attempt) & (samples.c.at_byte == one.at_byte)
        if connection.execute(select(samples.c.at_byte).where(here)).first() is not None:
            continue
        content = json.dumps(one.rows, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
        if held >= REPORTS_AT_MOST or size_bytes + len(content) > BYTES_AT_MOST:
            refused += 1
            continue
        connection.execute(
            insert(samples).values(
                job_id=job_id,
                attempt=attempt,
                at_byte=one.at_byte,
                name=one.name,
                step=one.step,
                at=one.at,
                rows=len(one.rows),
                left_out=one.left_out,
                bytes=len(content),
                content=zstd.compress(content),
            )
        )
        held, size_bytes = held + 1, size_bytes + len(content)
    return refused


def list_names(connection: Connection, job_id: str) -> list[str]:
    """The names under which the job has reported examples."""
    query = select(samples.c.name).where(samples.c.job_id == job_id).distinct().order_by(samples.c.name)
    return list(connection.execute(query).scalars())


def list_samples(connection: Connection, job_id: str, name: str, after: int, limit: int) -> list[SampleLine]:
    """The reports under a name at steps above `after`, by step; of several at one step the last."""
    newest = (
        select(samples.c.step, func.max(_ORDER).label("newest"))
        .where(samples.c.job_id == job_id, samples.c.name == name, samples.c.step > after)
        .group_by(samples.c.step)
        .order_by(samples.c.step)
        .limit(limit)
        .subquery()
    )
    rows = connection.execute(
        select(samples)
        .join(newest, samples.c.step == newest.c.step)
        .where(
            samples.c.job_id == job_id,
            samples.c.name == name,
            newest.c.newest == _ORDER,
        )
        .order_by(samples.c.step)
    ).all()
    return [
        SampleLine(name=row.name, step=row.step, attempt=row.attempt, at=row.at, rows=row.rows, left_out=row.left_out)
        for row in rows
    ]


def find_sample(connection: Connection, job_id: str, name: str, step: int | None) -> tuple[SampleLine, Sample] | None:
    """The last report under a name at a step, or at the highest one; None when there is none."""
    query = select(samples).where(samples.c.job_id == job_id, samples.c.name == name)
    if step is not None:
        query = query.where(samples.c.step == step)
    row = connection.execute(
        query.order_by(samples.c.step.desc(), samples.c.attempt.desc(), samples.c.at_byte.desc()).limit(1)
    ).first()
    if row is None:
        return None
    line = SampleLine(
        name=row.name, step=row.step, attempt=row.attempt, at=row.at, rows=row.rows, left_out=row.left_out
    )
    rows = tuple(json.loads(zstd.decompress(row.content)))
    return line, Sample(at_byte=row.at_byte, name=row.name, step=row.step, at=row.at, rows=rows, left_out=row.left_out)


def delete_samples(connection: Connection, job_id: str) -> None:
    """Forget every example that the job reported."""
    connection.execute(delete(samples).where(samples.c.job_id == job_id))
