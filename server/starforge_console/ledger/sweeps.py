"""Sweeps in the ledger: admitted whole or not at all, listed, and gone with the last of their jobs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, Row, Select, func, insert, select, tuple_

from starforge.contract.ids import JobId, SweepId
from starforge.errors import NotFound
from starforge.said.sentence import say
from starforge_console.ledger.jobs import NewJob, SubmitKey, admit, refuse_used_key
from starforge_console.ledger.kept_tables import idempotency
from starforge_console.ledger.search import ENDED_STATES, is_active
from starforge_console.ledger.sweep_tables import sweeps
from starforge_console.ledger.tables import jobs, users


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSweep:
    """A sweep all of whose jobs every gate has passed."""

    id: SweepId
    user_id: int
    name: str
    experiment: str
    project: str
    keys: tuple[str, ...]
    jobs: tuple[NewJob, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSweep:
    """A sweep, and how many of its jobs are in each state."""

    id: SweepId
    name: str
    experiment: str
    project: str
    user: str
    user_id: int
    keys: tuple[str, ...]
    size: int
    submitted_at: float
    states: Mapping[str, int]
    active: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepSearch:
    """Which sweeps are wanted; None does not filter. `before` is (submitted_at, id) of the last one that was shown."""

    user: str | None = None
    project: str | None = None
    before: tuple[float, str] | None = None


def admit_sweep(connection: Connection, sweep: NewSweep, key: SubmitKey | None, now: float) -> SweepId:
    """Keep the sweep and queue its jobs; under a key that was used before, give the sweep of that time.

    Raises:
        Conflict: the key was used for another body, or what a job needs was deleted just now; then nothing is kept.

    """
    known = None if key is None else find_swept(connection, key, len(sweep.jobs))
    if known is not None:
        return known
    connection.execute(
        insert(sweeps).values(
            id=sweep.id,
            user_id=sweep.user_id,
            name=sweep.name,
            experiment=sweep.experiment,
            project=sweep.project,
            keys=json.dumps(sweep.keys),
            size=len(sweep.jobs),
            submitted_at=now,
        )
    )
    for place, job in enumerate(sweep.jobs, 1):
        admit(connection, replace(job, sweep=sweep.id, sweep_place=place), _key_of(key, place), now)
    return sweep.id


def find_swept(connection: Connection, key: SubmitKey, size: int) -> SweepId | None:
    """The sweep that was submitted under `key`, as long as one of its jobs is there.

    Raises:
        Conflict: the key was used for another body.

    """
    keys = [_name_key(key.key, place) for place in range(1, size + 1)]
    row = connection.execute(
        select(idempotency.c.body_digest, jobs.c.sweep)
        .join(jobs, jobs.c.id == idempotency.c.job_id)
        .where(idempotency.c.user_id == key.user_id, idempotency.c.key.in_(keys))
        .limit(1)
    ).first()
    if row is None:
        return None
    if row.body_digest != key.body_digest:
        raise refuse_used_key(key, f"sweep {row.sweep}" if row.sweep else "a job")
    return SweepId(row.sweep)


def load_sweep(connection: Connection, sweep: str) -> KeptSweep:
    """One sweep. Raises NotFound."""
    row = connection.execute(_query().where(sweeps.c.id == sweep)).first()
    if row is None:
        raise NotFound(say("form.no_sweep", sweep=repr(sweep[:40])), next_step=say("form.no_sweep_next"))
    return _complete(connection, [row])[0]


def list_sweeps(connection: Connection, wanted: SweepSearch, limit: int) -> list[KeptSweep]:
    """At most `limit` of the sweeps that are wanted, newest first."""
    query = _query()
    if wanted.user is not None:
        query = query.where(users.c.name == wanted.user)
    if wanted.project is not None:
        query = query.where(sweeps.c.project == wanted.project)
    if wanted.before is not None:
        query = query.where(tuple_(sweeps.c.submitted_at, sweeps.c.id) < tuple_(*wanted.before))
    query = query.order_by(sweeps.c.submitted_at.desc(), sweeps.c.id.desc()).limit(limit)
    return _complete(connection, connection.execute(query).all())


def list_swept_jobs(connection: Connection, sweep: str, *, active: bool = False) -> list[JobId]:
    """The jobs of a sweep that are there, in the order of its combinations; with `active` those that have not ended."""
    query = select(jobs.c.id).where(jobs.c.sweep == sweep)
    query = query.where(is_active()) if active else query
    return [JobId(one) for one in connection.execute(query.order_by(jobs.c.sweep_place)).scalars()]


def _query() -> Select[Any]:
    return select(sweeps, users.c.name.label("user")).join(users, users.c.id == sweeps.c.user_id)


def _complete(connection: Connection, rows: Sequence[Row[Any]]) -> list[KeptSweep]:
    mine = jobs.c.sweep.in_([row.id for row in rows])
    counted = connection.execute(
        select(jobs.c.sweep, jobs.c.state, func.count().label("jobs"), func.count(jobs.c.retry_at).label("retried"))
        .where(mine)
        .group_by(jobs.c.sweep, jobs.c.state)
    ).all()
    states: dict[str, dict[str, int]] = {row.id: {} for row in rows}
    active = dict.fromkeys(states, 0)
    for one in counted:
        states[one.sweep][one.state] = one.jobs
        active[one.sweep] += one.retried if one.state in ENDED_STATES else one.jobs
    return [
        KeptSweep(
            id=SweepId(row.id),
            name=row.name,
            experiment=row.experiment,
            project=row.project,
            user=row.user,
            user_id=row.user_id,
            keys=tuple(json.loads(row._mapping["keys"])),  # noqa: SLF001 - `keys` is a method of rows
            size=row.size,
            submitted_at=row.submitted_at,
            states=states[row.id],
            active=active[row.id],
        )
        for row in rows
    ]


def _key_of(key: SubmitKey | None, place: int) -> SubmitKey | None:
    return None if key is None else replace(key, key=_name_key(key.key, place))


def _name_key(key: str, place: int) -> str:
    """The key of one combination: no client's own key has a line break in it."""
    return f"{key}\n{place}"
