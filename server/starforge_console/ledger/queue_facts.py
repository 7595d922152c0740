"""What people ask of the queue: where their own jobs stand, whose turn it is and why, and who may be passed no more."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from sqlalchemy import Connection, func, select

from starforge.contract.states import JobState
from starforge_console.ledger.listing import JobLine, load_lines
from starforge_console.ledger.queue_order import Place, list_places_of
from starforge_console.ledger.share_tables import shares
from starforge_console.ledger.tables import jobs, users

OWN_SHOWN: Final = 5
PROMISES_SHOWN: Final = 20
SHARES_SHOWN: Final = 100
PROMISED: Final = ("wait.promised", "wait.takes_no_other")
"""The reasons of a job that something is kept for, by their codes."""


class Placed(NamedTuple):
    """A queued job with its place, and how often it was passed by jobs that stood behind it."""

    place: Place
    line: JobLine
    passed: int


class ShareLine(NamedTuple):
    """A user with queued jobs, and the GPU-seconds that put them in order: the team's, then the user's."""

    user: str
    team: str | None
    jobs: int
    team_gpu_s: float
    user_gpu_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFacts:
    """What is told beside the queue itself, of one moment.

    `own` are the first queued jobs of one user, of `own_jobs`. `promised` are jobs that others may pass only so far.
    """

    own: list[Placed]
    own_jobs: int
    promised: list[Placed]
    shares: list[ShareLine]


def load_facts(connection: Connection, user_id: int) -> QueueFacts:
    """What the user is told of the queue."""
    mine = jobs.c.user_id == user_id
    queued = select(func.count()).where(jobs.c.state == JobState.QUEUED.value, mine)
    own_jobs = int(connection.execute(queued).scalar_one())
    own = list_places_of(connection, mine, OWN_SHOWN) if own_jobs else []
    is_promised = jobs.c.passed > 0
    for code in PROMISED:
        is_promised |= jobs.c.waiting.contains(code, autoescape=True)
    promised = list_places_of(connection, is_promised, PROMISES_SHOWN)
    return QueueFacts(
        own=_add_lines(connection, own),
        own_jobs=own_jobs,
        promised=_add_lines(connection, promised),
        shares=_list_shares(connection),
    )


def _add_lines(connection: Connection, places: list[Place]) -> list[Placed]:
    if not places:
        return []
    ids = [place.job for place in places]
    lines = load_lines(connection, ids)
    rows = connection.execute(select(jobs.c.id, jobs.c.passed).where(jobs.c.id.in_(ids))).all()
    passed = {row.id: row.passed for row in rows}
    return [Placed(place, lines[place.job], passed[place.job]) for place in places if place.job in lines]


def _list_shares(connection: Connection) -> list[ShareLine]:
    """The users with queued jobs; who comes first where priorities are equal stands first."""
    team, own = (func.coalesce(column, 0.0) for column in (shares.c.team_order, shares.c.user_order))
    rows = connection.execute(
        select(users.c.name, users.c.team, func.count(), team, own)
        .select_from(jobs.join(users, users.c.id == jobs.c.user_id).outerjoin(shares, shares.c.user_id == users.c.id))
        .where(jobs.c.state == JobState.QUEUED.value)
        .group_by(users.c.name, users.c.team, team, own)
        .order_by(team, own, users.c.name)
        .limit(SHARES_SHOWN)
    ).all()
    return [ShareLine(*row) for row in rows]
