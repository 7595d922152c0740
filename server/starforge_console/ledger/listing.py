"""Jobs as lines of a list: searched, counted by state, a page at a time, and what has changed since."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

from sqlalchemy import Connection, Integer, Row, Select, bindparam, func, or_, select

from starforge.contract.canonical import Json
from starforge.contract.combinations import find_values
from starforge.contract.states import JobState
from starforge.said.sentence import read_said
from starforge_console.ledger.missing import refuse_missing_job
from starforge_console.ledger.notes import read_note
from starforge_console.ledger.search import ACTIVE, ENDED_STATES, JobSearch, apply_search, is_active
from starforge_console.ledger.sweep_tables import sweeps
from starforge_console.ledger.tables import attempts, events, jobs, users
from starforge_console.ledger.views import EventRecord, JobRecord

CHANGED_AT_MOST: Final = 2000
_LIMIT, _OFFSET = "page_limit", "page_offset"


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOfJob:
    """The sweep that a job belongs to. Its values are kept as JSON: rows of pages are told apart by their hash."""

    id: str
    name: str
    values: str

    @property
    def combination(self) -> dict[str, Json]:
        """What the job was given there."""
        combination: dict[str, Json] = json.loads(self.values)
        return combination


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLine:
    """A job as a row of a table."""

    job: JobRecord
    recipe: str
    series: str | None
    node: str | None
    got: tuple[str, ...]
    """The series of the GPUs of its newest attempt, each once; none while it waits, or where they are not known."""
    max_runtime_s: float | None
    retries_left: int
    step: int | None = None
    """How far it has trained: the series know, and `web.steps` adds it where it is shown."""
    sweep: SweepOfJob | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Some of a job's events, oldest first; `earlier` and `later` are the ends beyond which there are more."""

    events: tuple[EventRecord, ...]
    total: int
    earlier: int | None
    later: int | None


def search_jobs(connection: Connection, wanted: JobSearch, limit: int, offset: int = 0) -> list[JobLine]:
    """One page of the jobs that are wanted, newest first."""
    values = {**wanted.values(), _LIMIT: limit, _OFFSET: offset}
    return [_line(row) for row in connection.execute(_page_query(wanted.shape()), values).all()]


def load_line(connection: Connection, job_id: str) -> JobLine:
    """One job. Raises NotFound."""
    line = load_lines(connection, [job_id]).get(job_id)
    if line is None:
        raise refuse_missing_job(job_id)
    return line


def load_lines(connection: Connection, ids: Sequence[str]) -> dict[str, JobLine]:
    """The lines of these jobs, by id; those that do not exist are left out."""
    rows = connection.execute(_line_query().where(jobs.c.id.in_(ids))).all()
    return {row.id: _line(row) for row in rows}


def list_unsettled(connection: Connection, recent: int) -> tuple[dict[str, JobLine], int]:
    """Every job that has not ended for good or is named by one of the `recent` newest events; that event's number."""
    last = load_last_event(connection)
    touched = select(events.c.job_id).where(events.c.number > last - recent)
    query = _line_query().where(or_(is_active(), jobs.c.id.in_(touched))).limit(CHANGED_AT_MOST)
    return {row.id: _line(row) for row in connection.execute(query).all()}, last


def count_jobs(connection: Connection, wanted: JobSearch) -> Mapping[str, int]:
    """How many of the wanted jobs (whatever their state) are in each state, and how many are `ACTIVE`."""
    every = replace(wanted, state=None, before=None)
    source = apply_search(select(jobs.c.state, func.count().label("jobs")).select_from(jobs.join(users)), every)
    counts = {row.state: int(row.jobs) for row in connection.execute(source.group_by(jobs.c.state)).all()}
    retried = apply_search(select(func.count()).select_from(jobs.join(users)), every).where(
        jobs.c.state.in_(ENDED_STATES), jobs.c.retry_at.is_not(None)
    )
    waiting = int(connection.execute(retried).scalar() or 0)
    return counts | {ACTIVE: waiting + sum(count for state, count in counts.items() if state not in ENDED_STATES)}


def list_owners(connection: Connection) -> list[str]:
    """The names of all users."""
    return list(connection.execute(select(users.c.name).order_by(users.c.name)).scalars())


def list_projects(connection: Connection, limit: int = 500) -> list[str]:
    """The names of the projects that have jobs, at most `limit`."""
    return list(connection.execute(select(jobs.c.project).distinct().order_by(jobs.c.project).limit(limit)).scalars())


def load_last_event(connection: Connection, job_id: str | None = None) -> int:
    """The number of the newest event, of one job where it is named; 0 when there is none."""
    query = select(func.max(events.c.number))
    if job_id is not None:
        query = query.where(events.c.job_id == job_id)
    return int(connection.execute(query).scalar() or 0)


def load_history(
    connection: Connection, job_id: str, limit: int, *, before: int | None = None, after: int | None = None
) -> History:
    """At most `limit` of the job's events: the newest, those right before a number, or those right after one."""
    mine = events.c.job_id == job_id
    query = select(events).where(mine)
    if after is not None:
        query = query.where(events.c.number > after).order_by(events.c.number)
    elif before is not None:
        query = query.where(events.c.number < before).order_by(events.c.number.desc())
    else:
        query = query.order_by(events.c.number.desc())
    rows = sorted(connection.execute(query.limit(limit)).all(), key=lambda row: row.number)
    found = tuple(EventRecord(**read_note(row._mapping)) for row in rows)  # noqa: SLF001 - `count` is a method of rows
    total, first, last = connection.execute(
        select(func.count(), func.min(events.c.number), func.max(events.c.number)).where(mine)
    ).one()
    earlier = found[0].number if found and found[0].number > first else None
    later = found[-1].number if found and found[-1].number < last else None
    return History(events=found, total=total, earlier=earlier, later=later)


def list_touched(connection: Connection, ids: Sequence[str], after: int) -> set[str]:
    """Those of the jobs `ids` that have an event with a number above `after`."""
    query = select(events.c.job_id).where(events.c.job_id.in_(ids), events.c.number > after).distinct()
    return set(connection.execute(query).scalars())


@cache
def _page_query(shape: JobSearch) -> Select[Any]:
    """One page of the jobs of a search of this shape. Kept: to build it anew costs more than to carry it out."""
    query = apply_search(_line_query(), shape).order_by(jobs.c.submitted_at.desc(), jobs.c.id.desc())
    return query.limit(bindparam(_LIMIT, type_=Integer)).offset(bindparam(_OFFSET, type_=Integer))


@cache
def _line_query() -> Select[Any]:
    columns = [jobs.c[name] for name in JobRecord.__dataclass_fields__ if name != "user"]
    more = (jobs.c.note_said, jobs.c.spec, jobs.c.pools, jobs.c.max_runtime_s, jobs.c.retries_left, jobs.c.sweep)
    of_attempt = (attempts.c.node, attempts.c.series.label("got"))
    swept = (sweeps.c.name.label("sweep_name"), sweeps.c["keys"].label("sweep_keys"))
    return (
        select(*columns, users.c.name.label("user"), *more, *of_attempt, *swept)
        .join(users, users.c.id == jobs.c.user_id)
        .outerjoin(attempts, attempts.c.id == jobs.c.attempt_id)
        .outerjoin(sweeps, sweeps.c.id == jobs.c.sweep)
    )


def _line(row: Row[Any]) -> JobLine:
    spec = json.loads(row.spec)["spec"]
    pools = json.loads(row.pools)
    values = {name: getattr(row, name) for name in JobRecord.__dataclass_fields__}
    values["note"] = read_said(row.note, row.note_said)
    return JobLine(
        job=JobRecord(**values),
        recipe=spec["recipe"]["name"],
        series=next((pool["series"] for pool in pools if pool["series"]), None),
        node=row.node,
        got=() if row.state == JobState.QUEUED.value else tuple((row.got or "").split()),
        max_runtime_s=row.max_runtime_s,
        retries_left=row.retries_left,
        sweep=None if row.sweep is None else _describe_part(row, spec),
    )


def _describe_part(row: Row[Any], spec: Mapping[str, Any]) -> SweepOfJob:
    combination = find_values(spec.get("hyperparameters", {}), json.loads(row.sweep_keys))
    return SweepOfJob(id=row.sweep, name=row.sweep_name, values=json.dumps(combination))
