"""Maintenance in the ledger: a fact of the install, so that it outlives the console's process."""

import json
from dataclasses import asdict, dataclass, replace
from typing import Final

from sqlalchemy import Connection, delete, insert, select, update

from starforge.contract.ids import JobId
from starforge.contract.states import DesiredState, JobState, Reason
from starforge.said.sentence import find_said, say
from starforge_console.domain.wishes import Wish
from starforge_console.ledger.holding import HOLDING
from starforge_console.ledger.moves import Guard
from starforge_console.ledger.tables import attempts, facts, jobs
from starforge_console.ledger.wishes import wish

BY_RESTORE: Final = "restore"
"""Who began the maintenance of a restored ledger, which ends by itself."""

_FACT: Final = "maintenance"
_BEGUN: Final = select(facts.c.value).where(facts.c.name == _FACT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """Who began it, when (Unix seconds) and why. While it lasts nothing is started."""

    by: str
    reason: str
    since: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceCounts:
    """Jobs that still hold a place, jobs that are paused and go on by themselves afterwards, and queued ones."""

    running: int
    paused: int
    queued: int


def find_maintenance(connection: Connection) -> Maintenance | None:
    """The maintenance that lasts now."""
    value = connection.execute(_BEGUN).scalar()
    if value is None:
        return None
    found = Maintenance(**json.loads(value))
    return replace(found, reason=find_said(found.reason, "restored.from")) if found.by == BY_RESTORE else found


def begin_maintenance(connection: Connection, by: str, reason: str, guard: Guard) -> tuple[Maintenance, list[JobId]]:
    """Start nothing from now on, and have everything that runs paused; gives the jobs that were asked now.

    Said again it asks whatever was missed, and takes another reason.
    """
    found = find_maintenance(connection)
    begun = Maintenance(by=by, reason=reason, since=guard.now)
    if found is not None and found.by != BY_RESTORE:
        begun = replace(found, reason=reason or found.reason)
    value = json.dumps(asdict(begun))
    if found is None:
        connection.execute(insert(facts), {"name": _FACT, "value": value})
    else:
        connection.execute(update(facts).where(facts.c.name == _FACT).values(value=value))
    told = say("note.maintenance", by=by)
    if begun.reason:
        told = say("note.maintenance_why", by=by, why=begun.reason)
    return begun, pause_holding(connection, None, told, guard)


def end_maintenance(connection: Connection) -> Maintenance | None:
    """Let jobs start again, those that maintenance paused among them; gives what ended, None where there was none."""
    found = find_maintenance(connection)
    connection.execute(delete(facts).where(facts.c.name == _FACT))
    return found


def pause_holding(connection: Connection, node: str | None, note: str, guard: Guard) -> list[JobId]:
    """Have the jobs that hold a place, on this node or anywhere, paused and go on by themselves; gives those asked.

    Jobs of which something is wished already are left as they are.
    """
    query = select(jobs.c.id).where(jobs.c.state.in_(HOLDING), jobs.c.desired == DesiredState.RUN.value)
    if node is not None:
        query = query.join(attempts, attempts.c.id == jobs.c.attempt_id).where(attempts.c.node == node)
    wished = Wish(desired=DesiredState.PAUSE, wished_for=Reason.DRAINED, goes_on=True, note=note)
    found = connection.execute(query.order_by(jobs.c.id)).scalars().all()
    return [JobId(job) for job in found if wish(connection, JobId(job), wished, guard)]


def count_in_maintenance(connection: Connection) -> MaintenanceCounts:
    """How far a maintenance has got."""
    rows = connection.execute(
        select(jobs.c.state, jobs.c.goes_on).where(
            jobs.c.state.in_([*HOLDING, JobState.QUEUED.value, JobState.PAUSED.value])
        )
    ).all()
    return MaintenanceCounts(
        running=sum(row.state in HOLDING for row in rows),
        paused=sum(row.state == JobState.PAUSED.value and row.goes_on for row in rows),
        queued=sum(row.state == JobState.QUEUED.value for row in rows),
    )
