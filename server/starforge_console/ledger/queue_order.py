"""The queue as people read it: who stands where, and how many GPUs of which series are asked for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, func, select, tuple_

from starforge.contract.launch import PoolRequest
from starforge.contract.states import JobState
from starforge_console.ledger.listing import JobLine, load_lines
from starforge_console.ledger.pools import read_pools
from starforge_console.ledger.share_tables import shares
from starforge_console.ledger.tables import jobs

_WITH_SHARES: Final = jobs.outerjoin(shares, shares.c.user_id == jobs.c.user_id)
# The order is that of `starforge_console.domain.order`: a test holds both together.
_ORDER: Final[tuple[ColumnElement[Any], ...]] = (
    -jobs.c.ahead,
    -jobs.c.priority,
    func.coalesce(shares.c.team_order, 0.0),
    func.coalesce(shares.c.user_order, 0.0),
    jobs.c.submitted_at,
    jobs.c.id,
)


@dataclass(frozen=True, slots=True)
class QueuedShape:
    """What some queued jobs ask for alike, and how many they are. `text` is what the ledger keeps of it."""

    text: str
    pools: tuple[PoolRequest, ...]
    jobs: int

    def gpus_of(self, series: str | None) -> int:
        """How many GPUs of exactly this series one of them asks for; None: of any series."""
        return sum(pool.nodes * pool.gpus_per_node for pool in self.pools if pool.series == series)

    @property
    def series(self) -> frozenset[str | None]:
        """The series that GPUs are asked of; None among them where any will do."""
        return frozenset(pool.series for pool in self.pools if pool.gpus_per_node)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a queued job stands; the first one stands at 1."""

    number: int
    job: str
    priority: int
    ahead: int = 0
    """How far an administrator moved it: above 0 before all that were not moved, below 0 behind them."""


def list_shapes(connection: Connection) -> list[QueuedShape]:
    """What all queued jobs ask for, each shape once."""
    rows = connection.execute(
        select(jobs.c.pools, func.count().label("jobs"))
        .where(jobs.c.state == JobState.QUEUED.value)
        .group_by(jobs.c.pools)
    ).all()
    return [QueuedShape(row.pools, read_pools(row.pools), int(row.jobs)) for row in rows]


def list_places(
    connection: Connection, limit: int, *, after: int = 0, shapes: Sequence[QueuedShape] | None = None
) -> list[Place]:
    """At most `limit` places behind number `after`, in the order of `order_queue`; of these shapes alone if given."""
    number = func.row_number().over(order_by=_ORDER).label("number")
    columns = (jobs.c.id, jobs.c.priority, jobs.c.ahead, jobs.c.pools)
    queued = select(number, *columns).select_from(_WITH_SHARES)
    placed = queued.where(jobs.c.state == JobState.QUEUED.value).subquery()
    wanted = select(placed.c.number, placed.c.id, placed.c.priority, placed.c.ahead).where(placed.c.number > after)
    if shapes is not None:
        wanted = wanted.where(placed.c.pools.in_([shape.text for shape in shapes]))
    return [Place(*row) for row in connection.execute(wanted.order_by(placed.c.number).limit(limit)).all()]


def list_places_of(connection: Connection, wanted: ColumnElement[bool], limit: int) -> list[Place]:
    """The first `limit` places, in the whole queue, of queued jobs that are `wanted`."""
    number = func.row_number().over(order_by=_ORDER).label("number")
    queued = select(number, jobs.c.id, jobs.c.priority, jobs.c.ahead, wanted.label("wanted")).select_from(_WITH_SHARES)
    placed = queued.where(jobs.c.state == JobState.QUEUED.value).subquery()
    columns = (placed.c.number, placed.c.id, placed.c.priority, placed.c.ahead)
    found = select(*columns).where(placed.c.wanted).order_by(placed.c.number).limit(limit)
    return [Place(*row) for row in connection.execute(found).all()]


def find_place(connection: Connection, job_id: str) -> int | None:
    """Where the job stands in the whole queue, the first one at 1; None when it is not queued."""
    queued = jobs.c.state == JobState.QUEUED.value
    of_job = select(*_ORDER).select_from(_WITH_SHARES).where(queued, jobs.c.id == job_id)
    row = connection.execute(of_job).first()
    if row is None:
        return None
    before = select(func.count()).select_from(_WITH_SHARES).where(queued, tuple_(*_ORDER) < tuple_(*row))
    return 1 + int(connection.execute(before).scalar() or 0)


def list_placed(
    connection: Connection, limit: int, *, after: int = 0, shapes: Sequence[QueuedShape] | None = None
) -> list[tuple[Place, JobLine]]:
    """The same with the jobs themselves."""
    places = list_places(connection, limit, after=after, shapes=shapes)
    lines = load_lines(connection, [place.job for place in places])
    return [(place, lines[place.job]) for place in places if place.job in lines]
