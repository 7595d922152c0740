"""Reading curves, many at once: the roll-ups that they are drawn from, and the points of some of their chunks."""

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Row, Select, bindparam, select

from starforge_console.domain.points import Columns
from starforge_console.domain.rollup import Rollup
from starforge_console.ledger.metric_tables import metric_chunks, metric_pages

PAGE_CHUNKS: Final = 64
"""So many chunks that change no more have their summaries together in one row."""

Name = tuple[str, str]
"""A curve: its job and its key."""
T = TypeVar("T", bound=Hashable)


def load_rollups(connection: Connection, names: Iterable[Name]) -> dict[Name, Rollup]:
    """The summaries of the curves' chunks, in order of arrival; a curve that is not there is left out.

    A handful of statements, however many curves there are of jobs that reported alike.
    """
    rollups = {name: Rollup.empty() for name in names}
    for jobs, keys in _list_products(rollups):
        for row in connection.execute(_PAGES, {"jobs": jobs, "keys": keys}):
            rollups[row[0], row[1]].add_packed(row[2])
    alike = _group({name: len(rollup) for name, rollup in rollups.items()})
    for paged, of_them in alike.items():
        for jobs, keys in _list_products(of_them):
            rows = list_summaries(connection, jobs, keys, paged)
            for (job, key), own in groupby(rows, itemgetter(0, 1)):
                rollups[job, key].add_rows([row[2:] for row in own])
    return {name: rollup for name, rollup in rollups.items() if rollup}


def load_chunks(connection: Connection, wanted: Mapping[Name, Collection[int]]) -> dict[Name, dict[int, Columns]]:
    """The points of the chunks of these numbers of each curve."""
    chunks: dict[Name, dict[int, Columns]] = {name: {} for name in wanted}
    alike = _group({name: tuple(sorted(numbers)) for name, numbers in wanted.items()})
    for numbers, names in alike.items():
        for start in range(0, len(numbers), _NUMBERS_A_QUERY):
            some = numbers[start : start + _NUMBERS_A_QUERY]
            for jobs, keys in _list_products(names):
                for job, key, number, *packed in connection.execute(
                    _POINTS, {"jobs": jobs, "keys": keys, "numbers": some}
                ):
                    chunks[job, key][number] = Columns.unpack(*packed)
    return chunks


def list_summaries(connection: Connection, jobs: Sequence[str], keys: Sequence[str], after: int) -> Sequence[Row[Any]]:
    """(job, key, then what `Rollup.add_rows` takes) of the chunks behind number `after`, of one curve after another."""
    return connection.execute(_SUMMARIES, {"jobs": jobs, "keys": keys, "after": after}).all()


_NUMBERS_A_QUERY: Final = 500


def _select(table: Any, *columns: str) -> Select[Any]:  # noqa: ANN401 - either of two tables
    """Columns of some jobs' curves. Made once: putting a statement together takes longer than a small one runs."""
    return (
        select(table.c.job_id, table.c.key, *[table.c[name] for name in columns])
        .where(
            table.c.job_id.in_(bindparam("jobs", expanding=True)), table.c.key.in_(bindparam("keys", expanding=True))
        )
        .order_by(table.c.job_id, table.c.key, table.c.number)
    )


_PAGES: Final = _select(metric_pages, "chunks")
_POINTS: Final = _select(metric_chunks, "number", "steps", "values", "times").where(
    metric_chunks.c.number.in_(bindparam("numbers", expanding=True))
)
_SUMMARIES: Final = _select(
    metric_chunks,
    *("number", "attempt", "count", "first_step", "last_step"),
    *("min_step", "max_step", "nan_step", "min_value", "min_time", "max_value", "max_time", "nan_time"),
).where(metric_chunks.c.number > bindparam("after"))


def _group(curves: Mapping[Name, T]) -> dict[T, list[Name]]:
    """The curves of which the same is wanted together."""
    groups: dict[T, list[Name]] = {}
    for name, wanted in curves.items():
        groups.setdefault(wanted, []).append(name)
    return groups


def _list_products(names: Iterable[Name]) -> list[tuple[list[str], list[str]]]:
    """(jobs, keys) of which every job with every key is one of the curves, each in one of them."""
    jobs_of: dict[str, list[str]] = {}
    for job, key in names:
        jobs_of.setdefault(key, []).append(job)
    keys_of: dict[tuple[str, ...], list[str]] = {}
    for key, jobs in jobs_of.items():
        keys_of.setdefault(tuple(jobs), []).append(key)
    return [(list(jobs), keys) for jobs, keys in keys_of.items()]
