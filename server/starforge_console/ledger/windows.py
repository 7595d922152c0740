"""Windows in the ledger, and the jobs that they stopped."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Row, and_, delete, insert, or_, select, true, update

from starforge.contract.ids import AttemptId, JobId
from starforge.contract.states import JobState, Reason
from starforge_console.domain.opening import KINDS, Asker, Bound, KeptWindow, WindowOf, Windows
from starforge_console.domain.window_syntax import knows_zone, read_window, write_span
from starforge_console.ledger.holding import HOLDING
from starforge_console.ledger.moves import JobRef, note_timeline
from starforge_console.ledger.pools import read_pools
from starforge_console.ledger.quotas import list_members
from starforge_console.ledger.tables import jobs, users
from starforge_console.ledger.window_stops import look_again
from starforge_console.ledger.window_tables import windows

_KINDS: Final = {str(kind): kind for kind in KINDS}


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowLine:
    """A window with who set it."""

    kept: KeptWindow
    set_by: str
    set_at: float


class StoppedJob(NamedTuple):
    """A job that a window stopped and that goes on by itself; `at` is when to look at it."""

    ref: JobRef
    asker: Asker
    at: float


def list_windows(connection: Connection) -> Sequence[WindowLine]:
    """All of them, fleets first, by name."""
    rows = connection.execute(select(windows)).all()
    lines = [WindowLine(kept=_read_window(row), set_by=row.set_by, set_at=row.set_at) for row in rows]
    return sorted(lines, key=lambda line: (KINDS.index(line.kept.of.kind), line.kept.of.name))


def load_windows(connection: Connection) -> Windows:
    """All that are in force; with them the users' teams, where there is a window at all."""
    every = tuple(line.kept for line in list_windows(connection))
    if not every:
        return Windows()
    known = {one.window.zone: knows_zone(one.window.zone) for one in every}
    kept, lost = (tuple(one for one in every if known[one.window.zone] is wanted) for wanted in (True, False))
    return Windows(kept, {user_id: member.team for user_id, member in list_members(connection).items()}, lost)


def still_bind(connection: Connection, bound: Bound, user_id: int) -> bool:
    """Whether each of these windows is as it was read, and if it is a team's, the user's still."""
    named = or_(*(and_(windows.c.kind == one.of.kind, windows.c.name == one.of.name) for one in bound))
    kept = {_read_window(row) for row in connection.execute(select(windows).where(named)).all()}
    teams = {one.of.name for one in bound if one.of.kind == "team"}
    team = connection.execute(select(users.c.team).where(users.c.id == user_id)).scalar() if teams else None
    return kept == {*bound} and teams <= {team}


def put_window(connection: Connection, line: WindowLine) -> None:
    """Keep a window in place of the one before; jobs that windows stopped are looked at again from `set_at` on."""
    remove_window(connection, line.kept.of, line.set_at)
    of, window = line.kept.of, line.kept.window
    connection.execute(
        insert(windows).values(
            kind=of.kind,
            name=of.name,
            zone=window.zone,
            open=json.dumps([write_span(span) for span in window.open]),
            without=json.dumps([day.isoformat() for day in sorted(window.without)]),
            goes_on=line.kept.goes_on,
            set_by=line.set_by,
            set_at=line.set_at,
        )
    )


def remove_window(connection: Connection, of: WindowOf, now: float) -> bool:
    """Let it have no window; False when it had none."""
    removed = connection.execute(delete(windows).where(windows.c.kind == of.kind, windows.c.name == of.name)).rowcount
    look_again(connection, true(), now)
    return bool(removed)


def list_stopped_by_window(connection: Connection) -> Sequence[StoppedJob]:
    """Jobs that windows stopped and that go on by themselves, the first ones first."""
    columns = (
        *(jobs.c.id, jobs.c.version, jobs.c.attempt_id, jobs.c.attempt_number),
        *(jobs.c.user_id, jobs.c.fleet, jobs.c.pools, jobs.c.grace_s, jobs.c.retry_at),
        *(jobs.c.state, jobs.c.reason),
    )
    # State and reason are left to this process: with them SQLite walks through all stopped jobs there ever were.
    again = select(*columns).where(jobs.c.retry_at.is_not(None)).order_by(jobs.c.retry_at, jobs.c.submitted_at)
    stopped = (JobState.STOPPED.value, Reason.WINDOW_CLOSED.value)
    rows = [row for row in connection.execute(again).all() if (row.state, row.reason) == stopped]
    return [
        StoppedJob(
            ref=JobRef(
                id=JobId(row.id),
                state=JobState.STOPPED,
                version=row.version,
                attempt=AttemptId(row.attempt_id),
                number=row.attempt_number,
            ),
            asker=Asker(row.user_id, row.fleet, read_pools(row.pools), row.grace_s),
            at=row.retry_at,
        )
        for row in rows
    ]


def put_off(connection: Connection, job: JobRef, at: float) -> None:
    """Let the stopped job be looked at again at that time."""
    connection.execute(update(jobs).where(jobs.c.id == job.id, jobs.c.version == job.version).values(retry_at=at))


def give_up(connection: Connection, job: JobRef, now: float, why: str) -> None:
    """Let the stopped job go on by itself no more."""
    mine = (jobs.c.id == job.id) & (jobs.c.version == job.version)
    if connection.execute(update(jobs).where(mine).values(retry_at=None, goes_on=False)).rowcount:
        note_timeline(connection, job.id, now, why, job.number)


def list_askers(connection: Connection) -> dict[JobId, Asker]:
    """What windows look at of the jobs that hold a place."""
    columns = (jobs.c.id, jobs.c.user_id, jobs.c.fleet, jobs.c.pools, jobs.c.grace_s)
    rows = connection.execute(select(*columns).where(jobs.c.state.in_(HOLDING))).all()
    return {JobId(row.id): Asker(row.user_id, row.fleet, read_pools(row.pools), row.grace_s) for row in rows}


def _read_window(row: Row[Any]) -> KeptWindow:
    return KeptWindow(
        of=WindowOf(_KINDS[row.kind], row.name),
        window=read_window(row.zone, json.loads(row.open), json.loads(row.without)),
        goes_on=row.goes_on,
    )
