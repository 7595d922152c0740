"""A ledger that was restored from a backup: what is newer than it, and what waits until that is known."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from sqlalchemy import Connection, delete, insert, select, update

from starforge.contract.ids import AttemptId, JobId, job_of, number_of
from starforge.contract.states import JobState, Reason
from starforge.said.sentence import say
from starforge_console.domain.nodes import NodeState
from starforge_console.ledger.fleets import add_fact, find_fact
from starforge_console.ledger.kept_tables import newer_attempts
from starforge_console.ledger.maintenance import BY_RESTORE, Maintenance, end_maintenance, find_maintenance
from starforge_console.ledger.moves import Change, Guard, JobRef, move
from starforge_console.ledger.retention_runs import Hold, add_hold, new_hold_id
from starforge_console.ledger.tables import attempts, facts, jobs, nodes

_FACT: Final = "restored"
_MAINTENANCE: Final = "maintenance"
HELD_S: Final = 7 * 86_400.0
"""So long the collector removes nothing after a restore: what newer jobs refer to looks as if nobody did."""
IN_STORAGE: Final = "storage"
"""The place of what the storage alone tells of."""
_IDS_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """When the backup was made, and when it was restored (Unix seconds)."""

    made_at: float
    at: float


@dataclass(frozen=True, slots=True, order=True)
class Newer:
    """An attempt of a job that the ledger knows without it. `place`: the storage, or the fleet that holds it."""

    job: JobId
    number: int
    place: str


def mark_restored(connection: Connection, restored: Restored, reason: str) -> None:
    """Start nothing and remove nothing until `settle_restored`."""
    for name in (_FACT, _MAINTENANCE):
        connection.execute(delete(facts).where(facts.c.name == name))
    add_fact(connection, _FACT, json.dumps(asdict(restored)))
    maintenance = Maintenance(by=BY_RESTORE, reason=reason, since=restored.at)
    add_fact(connection, _MAINTENANCE, json.dumps(asdict(maintenance)))
    until = restored.at + HELD_S
    hold = Hold(id=new_hold_id(BY_RESTORE), until=until, by=BY_RESTORE, why=reason, by_console=True)
    add_hold(connection, hold, restored.at)


def find_restored(connection: Connection) -> Restored | None:
    """The restore of which not everything is known yet."""
    text = find_fact(connection, _FACT)
    return None if text is None else Restored(**json.loads(text))


def settle_restored(connection: Connection) -> None:
    """Let jobs start again: all that is newer is known. A maintenance that somebody else began goes on."""
    connection.execute(delete(facts).where(facts.c.name == _FACT))
    found = find_maintenance(connection)
    if found is not None and found.by == BY_RESTORE:
        end_maintenance(connection)


def list_silent_nodes(connection: Connection, since: float) -> list[str]:
    """The machines that have not told what they hold since then; those that are lost hold nothing that counts."""
    told = nodes.c.heartbeat_at >= since
    standing = nodes.c.state.in_([NodeState.ACTIVE.value, NodeState.DRAINING.value]) & ~nodes.c.legacy
    rows = connection.execute(select(nodes.c.name).where(standing, told.is_not(True)).order_by(nodes.c.name))
    return [str(name) for name in rows.scalars()]


def note_unknown(connection: Connection, held: Iterable[AttemptId], place: str) -> list[Newer]:
    """Remember those of `held` that the ledger does not know and whose job it knows; gives them."""
    found = []
    wanted = sorted(held)
    for start in range(0, len(wanted), _IDS_AT_ONCE):
        some = wanted[start : start + _IDS_AT_ONCE]
        known = set(connection.execute(select(attempts.c.id).where(attempts.c.id.in_(some))).scalars())
        found += [Newer(job_of(one), number_of(one), place) for one in some if one not in known]
    return note_newer(connection, found)


def note_newer(connection: Connection, found: Sequence[Newer]) -> list[Newer]:
    """Remember attempts that are newer than the ledger, as far as it knows their jobs; gives those."""
    kept = []
    for one in found:
        if connection.execute(select(jobs.c.id).where(jobs.c.id == one.job)).first() is None:
            continue
        here = (newer_attempts.c.job_id == one.job) & (newer_attempts.c.number == one.number)
        if connection.execute(update(newer_attempts).where(here).values(place=one.place)).rowcount == 0:
            values = {"job_id": one.job, "number": one.number, "place": one.place}
            connection.execute(insert(newer_attempts), values)
        kept.append(one)
    return kept


def has_newer(connection: Connection, job: JobId | None = None) -> bool:
    """Whether something newer is known of the job, or of any, for which it is not held yet."""
    query = select(newer_attempts.c.job_id).limit(1)
    if job is not None:
        query = query.where(newer_attempts.c.job_id == job)
    return connection.execute(query).first() is not None


def list_numbers(connection: Connection) -> dict[JobId, int]:
    """Every job, and the number of its newest attempt that the ledger knows."""
    rows = connection.execute(select(jobs.c.id, jobs.c.attempt_number)).all()
    return {JobId(row.id): int(row.attempt_number) for row in rows}


def hold_newer(connection: Connection, guard: Guard) -> list[JobId]:
    """Pause the queued jobs of which something newer is known; gives them. Their next attempts get numbers behind it.

    A job that is not queued is held once it is: all ways to a new attempt lead through the queue.
    """
    rows = connection.execute(
        select(newer_attempts, jobs.c.version, jobs.c.attempt_number)
        .join(jobs, jobs.c.id == newer_attempts.c.job_id)
        .where(jobs.c.state == JobState.QUEUED.value)
        .order_by(newer_attempts.c.job_id, newer_attempts.c.number)
    ).all()
    newest = {row.job_id: row for row in rows}  # the last one of each job
    held = []
    for job, row in newest.items():
        ref = JobRef(id=JobId(job), state=JobState.QUEUED, version=row.version)
        numbers = {"attempt_number": max(row.attempt_number, row.number), "goes_on": False}
        place = say("restored.storage") if row.place == IN_STORAGE else row.place
        note = say("note.restored", number=row.number, place=place)
        if move(connection, ref, [Reason.PAUSE_REQUESTED], guard, Change(note=note, job=numbers)) is not None:
            connection.execute(delete(newer_attempts).where(newer_attempts.c.job_id == job))
            held.append(ref.id)
    return held
