"""Names of GPUs that an administrator gave a series, in the ledger."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import Connection, delete, insert, select

from starforge_console.ledger.tables import gpu_series


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedSeries:
    """One name, as the driver tells it, and its series."""

    name: str
    series: str
    added_by: str
    added_at: float


def list_added_series(connection: Connection) -> Sequence[AddedSeries]:
    """All of them, by name."""
    rows = connection.execute(select(gpu_series).order_by(gpu_series.c.name)).all()
    return [AddedSeries(name=row.name, series=row.series, added_by=row.added_by, added_at=row.added_at) for row in rows]


def put_series(connection: Connection, added: AddedSeries) -> None:
    """Keep the series of a name; what the name had before is replaced."""
    remove_series(connection, added.name)
    connection.execute(insert(gpu_series).values(asdict(added)))


def remove_series(connection: Connection, name: str) -> bool:
    """Forget the name; gives whether it was there."""
    return bool(connection.execute(delete(gpu_series).where(gpu_series.c.name == name)).rowcount)
