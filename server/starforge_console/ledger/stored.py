"""What jobs hold on the storage: written here alone, as it is told, measured and removed, with its sums by user."""

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Final

from sqlalchemy import Connection, delete, func, insert, select, update

from starforge.contract.ids import JobId
from starforge_console.ledger.share_tables import stored, user_storage
from starforge_console.ledger.tables import jobs

_NAMED_AT_MOST: Final = 500


class Store(StrEnum):
    """What of a job lies on the storage and counts."""

    ARTIFACTS = "artifacts"
    CHECKPOINTS = "checkpoints"
    LOG = "log"


def note_stored(connection: Connection, job: JobId, found: Mapping[tuple[Store, int], int]) -> None:
    """Let the job hold so many bytes of each kind by attempt, as measured; what is not named stays as it is."""
    user = connection.execute(select(jobs.c.user_id).where(jobs.c.id == job)).scalar()
    if user is None:
        return
    here = connection.execute(
        select(stored.c.kind, stored.c.number, stored.c.bytes).where(stored.c.job_id == job)
    ).all()
    known = {(Store(kind), number): held for kind, number, held in here}
    for (kind, number), held in found.items():
        before = known.get((kind, number))
        where = (stored.c.job_id == job, stored.c.kind == kind.value, stored.c.number == number)
        if held == (before or 0):
            continue
        if before is None:
            values = {"job_id": job, "kind": kind.value, "number": number, "user_id": user, "bytes": held}
            connection.execute(insert(stored), values)
        elif held:
            connection.execute(update(stored).where(*where).values(bytes=held))
        else:
            connection.execute(delete(stored).where(*where))
        _add(connection, user, held - (before or 0))


def note_told(connection: Connection, job: JobId, first: int, told_bytes: int) -> None:
    """Let the artifacts of the attempts from `first` on hold at least what one of them has told of by now."""
    here = (stored.c.job_id == job, stored.c.kind == Store.ARTIFACTS.value, stored.c.number == first)
    known = connection.execute(select(stored.c.bytes).where(*here)).scalar() or 0
    if told_bytes > known:
        note_stored(connection, job, {(Store.ARTIFACTS, first): told_bytes})


def drop_stored(connection: Connection, job: JobId) -> None:
    """Let the job, which is deleted, hold nothing."""
    rows = connection.execute(select(stored.c.user_id, stored.c.bytes).where(stored.c.job_id == job)).all()
    connection.execute(delete(stored).where(stored.c.job_id == job))
    for user, held in rows:
        _add(connection, user, -held)


def load_stored(connection: Connection, users_of: Collection[int]) -> dict[int, int]:
    """How many bytes the jobs of each of these users hold; one who holds nothing may be missing."""
    query = select(user_storage.c.user_id, user_storage.c.bytes)
    if len(users_of) <= _NAMED_AT_MOST:
        query = query.where(user_storage.c.user_id.in_(users_of))
    return {user: held for user, held in connection.execute(query).all() if user in users_of}


def list_stored(connection: Connection, users_of: Collection[int]) -> dict[tuple[int, str], int]:
    """How many bytes each job of these users holds, by user and job. Adds up all their jobs: not for a pass."""
    query = select(stored.c.user_id, stored.c.job_id, func.sum(stored.c.bytes))
    if len(users_of) <= _NAMED_AT_MOST:
        query = query.where(stored.c.user_id.in_(users_of))
    rows = connection.execute(query.group_by(stored.c.user_id, stored.c.job_id)).all()
    return {(user, job): int(held) for user, job, held in rows if user in users_of}


def _add(connection: Connection, user: int, more: int) -> None:
    of_user = user_storage.c.user_id == user
    changed = connection.execute(update(user_storage).where(of_user).values(bytes=user_storage.c.bytes + more))
    if not changed.rowcount:
        connection.execute(insert(user_storage), {"user_id": user, "bytes": more})
