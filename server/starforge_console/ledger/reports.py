"""What an attempt tells about itself: who may report, how far its events are told, and the outputs it named."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from starforge.contract.ids import AttemptId, JobId
from starforge.contract.states import DesiredState, JobState
from starforge_console.domain.outputs import decide_outputs
from starforge_console.ledger.endings import list_lost_attempts
from starforge_console.ledger.moves import note_timeline
from starforge_console.ledger.pools import count_nodes, read_pools
from starforge_console.ledger.stored import note_told
from starforge_console.ledger.tables import attempt_outputs, attempts, event_marks, jobs

ENTRIES_AT_MOST: Final = 1000
"""So many entries of the timeline may come from one attempt's events; the rest stays in its spool."""
OUTPUTS_AT_MOST: Final = 20_000
"""So many artifacts and checkpoints of one attempt are listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportingAttempt:
    """The attempt that reports, over so many nodes."""

    id: AttemptId
    job: JobId
    number: int
    nodes: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestGrant:
    """What an ingest token stands for.

    `stop_by` is when the grace of a stop runs out, in Unix seconds, and `stop_grace_s` how long it was when wished.
    """

    attempt: ReportingAttempt
    expires_at: float
    desired: DesiredState
    stop_by: float | None
    stop_grace_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """An artifact (path below the output directory) or a committed checkpoint (path below the attempt's directory)."""

    kind: Literal["artifact", "checkpoint"]
    path: str
    step: int | None = None
    bytes: int | None = None
    sha256: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reports:
    """Events of an attempt from byte `before` to byte `to`: what people read of them, and the outputs they name.

    `told` is a (code, text) that people are told once an attempt; `total_steps` is how long the training will be.
    """

    before: int
    to: int
    notes: Sequence[str]
    outputs: Sequence[Output]
    told: tuple[str, str] | None = None
    total_steps: int | None = None


def find_grant(connection: Connection, token_hash: str) -> IngestGrant | None:
    """What the ingest token of this hash stands for, also when it has run out."""
    row = connection.execute(
        select(
            attempts.c.id,
            attempts.c.job_id,
            attempts.c.number,
            attempts.c.token_expires_at,
            jobs.c.pools,
            jobs.c.desired,
            jobs.c.stop_by,
            jobs.c.stop_grace_s,
            jobs.c.attempt_id.label("newest"),
        )
        .join(jobs, jobs.c.id == attempts.c.job_id)
        .where(attempts.c.token_hash == token_hash)
    ).first()
    if row is None:
        return None
    is_newest = row.newest == row.id
    return IngestGrant(
        attempt=_reporting(row.id, row.job_id, row.number, row.pools),
        expires_at=row.token_expires_at or 0.0,
        desired=DesiredState(row.desired) if is_newest else DesiredState.STOP,
        stop_by=row.stop_by if is_newest else None,
        stop_grace_s=row.stop_grace_s if is_newest else None,
    )


def list_reporting(connection: Connection) -> list[ReportingAttempt]:
    """The attempts that run now."""
    rows = connection.execute(
        select(attempts.c.id, attempts.c.job_id, attempts.c.number, jobs.c.pools)
        .join(jobs, jobs.c.attempt_id == attempts.c.id)
        .where(jobs.c.state == JobState.RUNNING.value)
    ).all()
    return [_reporting(row.id, row.job_id, row.number, row.pools) for row in rows]


def _reporting(attempt: str, job: str, number: int, pools: str) -> ReportingAttempt:
    nodes = count_nodes(read_pools(pools))
    return ReportingAttempt(id=AttemptId(attempt), job=JobId(job), number=number, nodes=nodes)


def events_received_to(connection: Connection, attempt: AttemptId) -> int:
    """Up to which byte the attempt's events are told."""
    return connection.execute(select(event_marks.c.received_to).where(event_marks.c.attempt == attempt)).scalar() or 0


def note_reports(connection: Connection, attempt: ReportingAttempt, reports: Reports, now: float) -> bool:
    """Tell `reports` in the timeline and keep their outputs; False, nothing done, when the mark stands elsewhere."""
    mark = _ensure_mark(connection, attempt.id)
    if mark.received_to != reports.before:
        return False
    room = max(0, ENTRIES_AT_MOST - mark.entries)
    for note in reports.notes[:room]:
        note_timeline(connection, attempt.job, now, note, attempt.number)
    connection.execute(
        update(event_marks)
        .where(event_marks.c.attempt == attempt.id)
        .values(received_to=reports.to, entries=mark.entries + min(room, len(reports.notes)))
    )
    if reports.total_steps is not None:
        _keep_total_steps(connection, attempt, reports.total_steps)
    if reports.told is not None:
        tell_once(connection, attempt, reports.told, now)
    if len(reports.notes) > room:
        text = f"attempt {attempt.number} tells more than {ENTRIES_AT_MOST} events: the others are only in its spool"
        tell_once(connection, attempt, ("many_events", text), now)
    if not _keep_outputs(connection, attempt.id, reports.outputs):
        text = f"attempt {attempt.number} names more than {OUTPUTS_AT_MOST} outputs: the others are not listed"
        tell_once(connection, attempt, ("many_outputs", text), now)
    if any(output.kind == "artifact" for output in reports.outputs):
        _count_artifacts(connection, attempt)
    return True


def tell_once(connection: Connection, attempt: ReportingAttempt, told: tuple[str, str], now: float) -> None:
    """Add (code, text) to the timeline unless this attempt has been told of that code before."""
    code, text = told
    mark = _ensure_mark(connection, attempt.id)
    if code in mark.told.split():
        return
    connection.execute(
        update(event_marks).where(event_marks.c.attempt == attempt.id).values(told=f"{mark.told} {code}".strip())
    )
    note_timeline(connection, attempt.job, now, text, attempt.number)


def list_outputs(connection: Connection, attempt: AttemptId) -> list[Output]:
    """The outputs that the attempt has named so far, by path."""
    rows = connection.execute(
        select(attempt_outputs)
        .where(attempt_outputs.c.attempt == attempt)
        .order_by(attempt_outputs.c.kind, attempt_outputs.c.path)
    ).all()
    return [Output(kind=row.kind, path=row.path, step=row.step, bytes=row.bytes, sha256=row.sha256) for row in rows]


def _ensure_mark(connection: Connection, attempt: AttemptId) -> Any:  # noqa: ANN401 - a row
    mark = connection.execute(select(event_marks).where(event_marks.c.attempt == attempt)).first()
    if mark is None:
        connection.execute(insert(event_marks).values(attempt=attempt, received_to=0, entries=0, told=""))
        mark = connection.execute(select(event_marks).where(event_marks.c.attempt == attempt)).one()
    return mark


def _keep_total_steps(connection: Connection, attempt: ReportingAttempt, total_steps: int) -> None:
    """The newest attempt has the last word; an older one, whose reports came late, the first."""
    mine = jobs.c.id == attempt.job
    may = (jobs.c.attempt_number == attempt.number) | jobs.c.total_steps.is_(None)
    connection.execute(update(jobs).where(mine, may).values(total_steps=total_steps))


def _count_artifacts(connection: Connection, attempt: ReportingAttempt) -> None:
    mine = (attempt_outputs.c.attempt == attempt.id) & (attempt_outputs.c.kind == "artifact")
    told_bytes = connection.execute(select(func.sum(attempt_outputs.c.bytes)).where(mine)).scalar() or 0
    first = decide_outputs(attempt.number, list_lost_attempts(connection, attempt.job))
    note_told(connection, attempt.job, first, int(told_bytes))


def _keep_outputs(connection: Connection, attempt: AttemptId, outputs: Sequence[Output]) -> bool:
    """Keep the newest word about each output; whether there was room for all."""
    newest = {(output.kind, output.path): output for output in outputs}
    if not newest:
        return True
    connection.execute(
        delete(attempt_outputs).where(
            attempt_outputs.c.attempt == attempt,
            attempt_outputs.c.kind == bindparam("b_kind"),
            attempt_outputs.c.path == bindparam("b_path"),
        ),
        [{"b_kind": kind, "b_path": path} for kind, path in newest],
    )
    held = connection.execute(
        select(func.count()).select_from(attempt_outputs).where(attempt_outputs.c.attempt == attempt)
    ).scalar_one()
    rows = [
        {"attempt": attempt, "kind": o.kind, "path": o.path, "step": o.step, "bytes": o.bytes, "sha256": o.sha256}
        for o in list(newest.values())[: max(0, OUTPUTS_AT_MOST - held)]
    ]
    if rows:
        connection.execute(insert(attempt_outputs), rows)
    return len(rows) == len(newest)
