"""What retention looks at and what it removed: facts of ended jobs, intents before anything goes, what is expired."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from sqlalchemy import Connection, Row, Table, and_, delete, func, insert, or_, select, update

from starforge.contract.ids import AttemptId, JobId
from starforge.contract.states import ENDED, JobState
from starforge.wording import describe_bytes
from starforge_console.domain.inputs import CheckpointInput
from starforge_console.domain.retention import AttemptFacts, JobFacts, Kind, Removal, find_hold
from starforge_console.ledger.kept_tables import idempotency, removals
from starforge_console.ledger.moves import note_timeline
from starforge_console.ledger.retention_runs import find_hold as find_standing
from starforge_console.ledger.stored import Store, note_stored
from starforge_console.ledger.tables import (
    attempts,
    jobs,
    join_tokens,
    log_segments,
    tokens,
)

Place = tuple[float, str]
"""Where a list of ended jobs goes on: when one ended, and its id."""

_NAMES_A_QUERY: Final = 500
_SHOWN: Final = {Kind.WORK: "the working directory", Kind.LOG: "the log", Kind.CHECKPOINT: "the checkpoint"}


@dataclass(frozen=True, slots=True)
class Removed:
    """One thing of an attempt that retention removed, or has begun to remove."""

    kind: Kind
    name: str
    at: float


@dataclass(frozen=True, slots=True)
class Expiry:
    """Keys of submissions from before the one, and tokens that were over before the other moment, are forgotten."""

    keys_before: float
    tokens_before: float


def list_ended(connection: Connection, after: Place, before: float, limit: int) -> Sequence[JobFacts]:
    """Jobs that ended before `before` (Unix seconds), the longest ago first, from `after` on; without what is on disks.

    `has_work` and `has_log` say that nothing was removed yet; whether anything is there only the disk knows.
    """
    ended_at, job = after
    rows = connection.execute(
        select(jobs)
        .where(
            jobs.c.state.in_([state.value for state in ENDED]),
            jobs.c.ended_at < before,
            or_(jobs.c.ended_at > ended_at, and_(jobs.c.ended_at == ended_at, jobs.c.id > job)),
        )
        .order_by(jobs.c.ended_at, jobs.c.id)
        .limit(limit)
    ).all()
    return _build_facts(connection, rows)


def begin_removals(connection: Connection, wanted: Sequence[Removal], now: float) -> Sequence[Removal]:
    """Write down what is about to go of one job, as far as the job, as it is now, still lets it; gives that part.

    From then on no new job can be admitted to start from a checkpoint that is among it. Nothing goes while somebody
    holds the collector: a backup may have been begun since the pass looked.
    """
    if not wanted or find_standing(connection, now) is not None:
        return ()
    rows = connection.execute(select(jobs).where(jobs.c.id == wanted[0].job)).all()
    if any(find_hold(job) for job in _build_facts(connection, rows)) or not rows:
        return ()
    for one in wanted:
        here = _here(one)
        if connection.execute(update(removals).where(here).values(bytes=one.bytes, done_at=None)).rowcount == 0:
            values = {"attempt": one.attempt, "kind": one.kind.value, "name": one.name, "at": now, "bytes": one.bytes}
            connection.execute(insert(removals).values(values))
    return wanted


def finish_removal(
    connection: Connection, one: Removal, now: float, left: Mapping[tuple[Store, int], int] = MappingProxyType({})
) -> None:
    """Record that all of it has gone, and what is `left` of its kind; tell so in the job's timeline, once."""
    note_stored(connection, JobId(one.job), left)
    if connection.execute(
        update(removals).where(_here(one), removals.c.done_at.is_(None)).values(done_at=now)
    ).rowcount:
        size = "" if one.bytes is None else f" ({describe_bytes(one.bytes)})"
        name = f" {one.name}" if one.name else ""
        note = f"retention removed {_SHOWN[one.kind]}{name} of attempt {one.number}{size}: {one.why}"
        note_timeline(connection, JobId(one.job), now, note, one.number)


def delete_segments(connection: Connection, attempt: AttemptId) -> None:
    """Forget, in the series, where the bytes of the attempt's log lie; how far it was received stays known."""
    connection.execute(delete(log_segments).where(log_segments.c.attempt == attempt))


def list_unfinished(connection: Connection, limit: int) -> Sequence[Removal]:
    """What was begun and did not come to its end, oldest first."""
    rows = connection.execute(
        select(removals, attempts.c.job_id, attempts.c.number)
        .join(attempts, attempts.c.id == removals.c.attempt)
        .where(removals.c.done_at.is_(None))
        .order_by(removals.c.at)
        .limit(limit)
    ).all()
    why = "its removal was begun before"
    return [
        Removal(
            kind=Kind(row.kind),
            why=why,
            job=row.job_id,
            attempt=row.attempt,
            number=row.number,
            name=row.name,
            bytes=row.bytes,
        )
        for row in rows
    ]


def list_removed(connection: Connection, ids: Collection[str]) -> Mapping[AttemptId, Sequence[Removed]]:
    """What was removed of these attempts, by attempt."""
    rows = connection.execute(select(removals).where(removals.c.attempt.in_(ids)).order_by(removals.c.at)).all()
    found: dict[AttemptId, list[Removed]] = {}
    for row in rows:
        found.setdefault(AttemptId(row.attempt), []).append(Removed(Kind(row.kind), row.name, row.at))
    return found


def find_log_removal(connection: Connection, attempt: str) -> float | None:
    """When the attempt's log was removed; None while it is here."""
    here = (removals.c.attempt == attempt) & (removals.c.kind == Kind.LOG.value)
    return connection.execute(select(removals.c.at).where(here)).scalar()


def is_checkpoint_removed(connection: Connection, start: CheckpointInput) -> bool:
    """Whether the checkpoint, or a folder that holds it, has gone or is about to."""
    names = [start.folder, *(start.folder[:at] for at, character in enumerate(start.folder) if character == "/")]
    query = (
        select(removals.c.attempt)
        .join(attempts, attempts.c.id == removals.c.attempt)
        .where(
            attempts.c.job_id == start.job,
            attempts.c.number == start.attempt,
            removals.c.kind == Kind.CHECKPOINT.value,
            removals.c.name.in_(names),
        )
    )
    return connection.execute(query).first() is not None


def list_referenced(connection: Connection, digests: Sequence[str]) -> set[str]:
    """Those of the digests that a job's workspace, or an attempt's runner, has."""
    found: set[str] = set()
    for start in range(0, len(digests), _NAMES_A_QUERY):
        wanted = digests[start : start + _NAMES_A_QUERY]
        found |= set(connection.execute(select(jobs.c.workspace).where(jobs.c.workspace.in_(wanted))).scalars())
        runners = select(attempts.c.runner_digest).where(attempts.c.runner_digest.in_(wanted)).distinct()
        found |= set(connection.execute(runners).scalars())
    return found


def delete_expired(connection: Connection, over: Expiry, limit: int) -> Mapping[str, int]:
    """Forget what nobody can use any more, at most `limit` of each kind; gives how many of what."""
    counts: dict[str, int] = {}
    for name, (table, clause) in _expired(over).items():
        key = list(table.primary_key.columns)
        rows = connection.execute(select(*key).where(clause).limit(limit)).all()
        for row in rows:
            connection.execute(delete(table).where(*(column == value for column, value in zip(key, row, strict=True))))
        counts[name] = len(rows)
    return counts


def count_expired(connection: Connection, over: Expiry) -> Mapping[str, int]:
    """How many of what `delete_expired` would forget."""
    return {
        name: connection.execute(select(func.count()).select_from(table).where(clause)).scalar_one()
        for name, (table, clause) in _expired(over).items()
    }


def _expired(over: Expiry) -> Mapping[str, tuple[Table, Any]]:
    return {
        "idempotency_keys": (idempotency, idempotency.c.at < over.keys_before),
        "tokens": (tokens, _is_over(tokens, over.tokens_before)),
        "join_tokens": (join_tokens, _is_over(join_tokens, over.tokens_before)),
    }


def _is_over(table: Table, before: float) -> Any:  # noqa: ANN401 - a clause
    return or_(table.c.expires_at < before, table.c.revoked_at < before)


def _here(one: Removal) -> Any:  # noqa: ANN401 - a clause
    return (removals.c.attempt == one.attempt) & (removals.c.kind == one.kind.value) & (removals.c.name == one.name)


def _build_facts(connection: Connection, rows: Sequence[Row[Any]]) -> Sequence[JobFacts]:
    ids = [row.id for row in rows]
    parents = set(connection.execute(select(jobs.c.starts_from).where(jobs.c.starts_from.in_(ids))).scalars())
    found = connection.execute(
        select(attempts.c.id, attempts.c.job_id, attempts.c.number, attempts.c.finalised_at, attempts.c.cleaned_at)
        .where(attempts.c.job_id.in_(ids))
        .order_by(attempts.c.number)
    ).all()
    removed = {
        (attempt, one.kind)
        for attempt, some in list_removed(connection, [row.id for row in found]).items()
        for one in some
    }
    of_job: dict[str, list[AttemptFacts]] = {}
    for row in found:
        facts = AttemptFacts(
            id=row.id,
            number=row.number,
            is_read=row.finalised_at is not None,
            is_clean=row.cleaned_at is not None,
            has_work=(row.id, Kind.WORK) not in removed,
            has_log=(row.id, Kind.LOG) not in removed,
        )
        of_job.setdefault(row.job_id, []).append(facts)
    return [
        JobFacts(
            id=row.id,
            state=JobState(row.state),
            reason=row.reason,
            retry_at=row.retry_at,
            ended_at=row.ended_at,
            is_parent=row.id in parents,
            attempts=tuple(of_job.get(row.id, ())),
        )
        for row in rows
    ]
