"""What explains a job: the difference of its tree, its settings, and what each attempt was assembled with."""

from dataclasses import dataclass
from typing import Final

from backports import zstd
from sqlalchemy import Connection, insert, select, update

from starforge.contract.ids import AttemptId, Digest, JobId
from starforge_console.ledger.tables import attempts, lineages

_LEVEL: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptDifference:
    """How a dirty tree differs from its commit, zstd-compressed; `bytes` is its size as text."""

    packed: bytes
    bytes: int
    is_cut: bool

    def unpack(self) -> str:
        """The text."""
        return zstd.decompress(self.packed).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """What is kept of a job beside its spec. `config` is the resolved settings as JSON."""

    rerun_of: JobId | None = None
    difference: KeptDifference | None = None
    config: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageRecord:
    """The same without the text of the difference. `difference_bytes` None: none is kept."""

    rerun_of: str | None = None
    difference_bytes: int | None = None
    difference_is_cut: bool = False
    config: str | None = None


def pack_difference(text: str, *, is_cut: bool) -> KeptDifference:
    """The difference as the ledger keeps it."""
    content = text.encode()
    return KeptDifference(packed=zstd.compress(content, _LEVEL), bytes=len(content), is_cut=is_cut)


def keep_lineage(connection: Connection, job_id: JobId, lineage: Lineage) -> None:
    """Keep what explains a new job."""
    difference = lineage.difference
    connection.execute(
        insert(lineages),
        {
            "job_id": job_id,
            "rerun_of": lineage.rerun_of,
            "difference": difference.packed if difference else None,
            "difference_bytes": difference.bytes if difference else None,
            "difference_is_cut": difference.is_cut if difference else False,
            "config": lineage.config,
        },
    )


def load_lineage(connection: Connection, job_id: str) -> Lineage:
    """What is kept of the job; nothing of one that was admitted before anything was."""
    row = connection.execute(select(lineages).where(lineages.c.job_id == job_id)).first()
    if row is None:
        return Lineage()
    difference = None
    if row.difference is not None:
        difference = KeptDifference(packed=row.difference, bytes=row.difference_bytes, is_cut=row.difference_is_cut)
    rerun_of = None if row.rerun_of is None else JobId(row.rerun_of)
    return Lineage(rerun_of=rerun_of, difference=difference, config=row.config)


def load_lineage_record(connection: Connection, job_id: str) -> LineageRecord:
    """As `load_lineage`, for whoever shows that there is a difference, and not which."""
    columns = [lineages.c[name] for name in LineageRecord.__dataclass_fields__]
    row = connection.execute(select(*columns).where(lineages.c.job_id == job_id)).first()
    return LineageRecord() if row is None else LineageRecord(**dict(row._mapping))  # noqa: SLF001 - the documented way


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembled:
    """What an attempt was assembled with; `is_bare`: it runs without a container, and so without its image."""

    capsule: Digest
    runner: Digest
    is_bare: bool


def note_assembled(connection: Connection, attempt: AttemptId, made: Assembled) -> None:
    """Record what the attempt was assembled with; said again it changes nothing."""
    values = {"capsule_digest": made.capsule, "runner_digest": made.runner, "is_bare": made.is_bare}
    connection.execute(update(attempts).where(attempts.c.id == attempt).values(**values))
