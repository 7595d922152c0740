"""Tables of the curves that jobs report: their keys, their points in chunks, and summaries of many chunks."""

from sqlalchemy import BigInteger, Column, Float, Integer, LargeBinary, Table, Text
from sqlalchemy.engine import Dialect

from starforge_console.ledger.tables import series


class _Bytes(LargeBinary):
    """Bytes that the drivers take as they are: to wrap each value costs more than to write it, where there are many."""

    cache_ok = True

    def bind_processor(self, dialect: Dialect) -> None:  # noqa: ARG002 - SQLAlchemy's
        return None


metric_keys = Table(
    "metric_keys",
    series,
    Column("job_id", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("points", BigInteger, nullable=False),
    Column("chunks", Integer, nullable=False),
    # The sizes of its last chunks that may still grow, separated by spaces, and the attempt that they are of.
    Column("pieces", Text),
    Column("attempt", Integer),
)

metric_pages = Table(
    "metric_pages",
    series,
    Column("job_id", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("chunks", _Bytes, nullable=False),
)
"""The summaries of some chunks that change no more, in columns: a long curve is drawn from them."""

metric_chunks = Table(
    "metric_chunks",
    series,
    Column("job_id", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("attempt", Integer, nullable=False),
    Column("count", Integer, nullable=False),
    Column("first_step", BigInteger, nullable=False),
    Column("last_step", BigInteger, nullable=False),
    Column("min_step", BigInteger),
    Column("min_value", Float),
    Column("min_time", Float),
    Column("max_step", BigInteger),
    Column("max_value", Float),
    Column("max_time", Float),
    Column("nan_step", BigInteger),
    Column("nan_time", Float),
    Column("steps", _Bytes, nullable=False),
    Column("values", _Bytes, nullable=False),
    Column("times", _Bytes, nullable=False),
)
"""Points of one key in columns (int64 steps, float64 values and times), with the summary that long curves show."""
