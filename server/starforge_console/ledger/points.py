"""The points of jobs' curves: appended in chunks by (job, key), with pages of roll-ups that long curves are drawn from.

A full chunk holds CHUNK_POINTS points. What is not full yet lies in pieces, each smaller than the one before, which
grow into one another: a point is rewritten a few times in all, not each time that its key gets another one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, and_, bindparam, delete, func, insert, select, update

from starforge_console.domain.points import Columns, build_summary
from starforge_console.domain.rollup import Rollup
from starforge_console.ledger.metric_tables import metric_chunks, metric_keys, metric_pages
from starforge_console.ledger.point_reads import PAGE_CHUNKS, list_summaries
from starforge_console.ledger.steps import delete_step, note_step

CHUNK_POINTS: Final = 1024
KEYS_AT_MOST: Final = 10_000
"""So many curves a job may have; points of further keys are not kept."""


@dataclass(frozen=True, slots=True)
class KeyCount:
    """A curve, and how many points of it were reported."""

    key: str
    points: int


def add_points(connection: Connection, job_id: str, attempt: int, points: Mapping[str, Columns]) -> int:
    """Append points to the curves of a job; gives how many were not kept because the job has too many curves.

    All keys go in a handful of statements: a small send of many keys costs about as much as one of a single key.
    """
    known = _load_keys(connection, job_id, list(points))
    kept, refused = _admit_keys(connection, job_id, points, known)
    plans = [_plan(key, known.get(key, _NEW), attempt, len(columns)) for key, columns in kept.items()]
    places = _group(plans)
    pieces = _load_pieces(connection, job_id, places)
    rows: list[dict[str, Any]] = []
    for plan in plans:
        pending = Columns.empty()
        for number in range(plan.first, plan.first + plan.absorbed):
            pending.extend(pieces[plan.key, number])
        pending.extend(kept[plan.key])
        for index in range(0, len(pending), CHUNK_POINTS):
            number = plan.first + index // CHUNK_POINTS
            chunk = _build_chunk(pending.part(index, index + CHUNK_POINTS))
            rows.append({"job_id": job_id, "key": plan.key, "number": number, "attempt": attempt, **chunk})
    _replace_chunks(connection, job_id, places, rows)
    _write_keys(connection, job_id, attempt, plans)
    for plan in plans:
        if plan.full // PAGE_CHUNKS > plan.full_before // PAGE_CHUNKS:
            _write_pages(connection, job_id, plan.key, plan.full // PAGE_CHUNKS)
    note_step(connection, job_id, attempt, kept)
    return refused


def list_keys(connection: Connection, job_id: str) -> dict[str, int]:
    """The keys that the job has reported, and how many points each has."""
    return {one.key: one.points for one in search_keys(connection, job_id)}


def search_keys(
    connection: Connection, job_id: str, text: str = "", *, after: str = "", limit: int = KEYS_AT_MOST
) -> list[KeyCount]:
    """At most `limit` keys of the job behind `after` in which `text` is found, whatever its case, by name."""
    wanted = and_(metric_keys.c.job_id == job_id)
    if text:
        wanted &= func.lower(metric_keys.c.key).contains(text.lower(), autoescape=True)
    if after:
        wanted &= metric_keys.c.key > after
    rows = connection.execute(
        select(metric_keys.c.key, metric_keys.c.points).where(wanted).order_by(metric_keys.c.key).limit(limit)
    ).all()
    return [KeyCount(row.key, row.points) for row in rows]


def count_points(connection: Connection, job_id: str) -> tuple[int, int]:
    """(keys, points) of the job."""
    row = connection.execute(
        select(func.count(), func.coalesce(func.sum(metric_keys.c.points), 0)).where(metric_keys.c.job_id == job_id)
    ).one()
    return int(row[0]), int(row[1])


def search_common_keys(connection: Connection, jobs: Sequence[str], text: str, limit: int) -> list[KeyCount]:
    """At most `limit` keys in which `text` is found, whatever its case: those that most of the jobs have first.

    `points` of each is how many of the jobs have it.
    """
    wanted = and_(metric_keys.c.job_id.in_(jobs))
    if text:
        wanted &= func.lower(metric_keys.c.key).contains(text.lower(), autoescape=True)
    have = func.count()
    rows = connection.execute(
        select(metric_keys.c.key, have)
        .where(wanted)
        .group_by(metric_keys.c.key)
        .order_by(have.desc(), metric_keys.c.key)
        .limit(limit)
    ).all()
    return [KeyCount(key, count) for key, count in rows]


def count_common_keys(connection: Connection, jobs: Sequence[str]) -> int:
    """How many keys any of the jobs has."""
    counted = select(func.count(metric_keys.c.key.distinct())).where(metric_keys.c.job_id.in_(jobs))
    return connection.execute(counted).scalar_one()


def delete_points(connection: Connection, job_id: str) -> None:
    """Forget the curves of a job."""
    for table in (metric_chunks, metric_pages, metric_keys):
        connection.execute(delete(table).where(table.c.job_id == job_id))
    delete_step(connection, job_id)


_NAMES_A_QUERY: Final = 500


@dataclass(frozen=True, slots=True)
class _Key:
    """What is known of a curve before it grows: `pieces` are the sizes of what is not full, of `attempt`."""

    points: int
    chunks: int
    pieces: tuple[int, ...]
    attempt: int | None


_NEW: Final = _Key(0, 0, (), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """How a curve grows: from number `first` on, `absorbed` pieces are written anew together with the new points."""

    key: str
    is_new: bool
    first: int
    absorbed: int
    points: int
    chunks: int
    pieces: tuple[int, ...]
    full_before: int

    @property
    def full(self) -> int:
        """How many chunks from the first on change no more."""
        return self.chunks - len(self.pieces)


def _plan(key: str, known: _Key, attempt: int, size: int) -> _Plan:
    pieces = known.pieces if known.attempt == attempt else ()
    absorbed, grown = 0, size
    if sum(pieces) + size >= CHUNK_POINTS:
        absorbed, grown = len(pieces), sum(pieces) + size
    while absorbed < len(pieces) and pieces[-1 - absorbed] <= grown:
        grown += pieces[-1 - absorbed]
        absorbed += 1
    kept, rest = pieces[: len(pieces) - absorbed], grown % CHUNK_POINTS
    return _Plan(
        key=key,
        is_new=known is _NEW,
        first=known.chunks - absorbed + 1,
        absorbed=absorbed,
        points=known.points + size,
        chunks=known.chunks - absorbed + -(-grown // CHUNK_POINTS),
        pieces=(*kept, rest) if rest else kept,
        full_before=known.chunks - len(pieces),
    )


def _load_keys(connection: Connection, job_id: str, keys: Sequence[str]) -> dict[str, _Key]:
    """Those of `keys` that the job has."""
    known: dict[str, _Key] = {}
    for start in range(0, len(keys), _NAMES_A_QUERY):
        rows = connection.execute(
            select(*[metric_keys.c[name] for name in ("key", "points", "chunks", "pieces", "attempt")]).where(
                metric_keys.c.job_id == job_id, metric_keys.c.key.in_(keys[start : start + _NAMES_A_QUERY])
            )
        ).all()
        for key, points, chunks, pieces, attempt in rows:
            known[key] = _Key(points, chunks, tuple(map(int, (pieces or "").split())), attempt)
    return known


def _admit_keys(
    connection: Connection, job_id: str, points: Mapping[str, Columns], known: Mapping[str, object]
) -> tuple[dict[str, Columns], int]:
    """Those of `points` that there is room for, and how many points are left out."""
    new = [key for key in points if key not in known]
    if not new:
        return dict(points), 0
    counted = select(func.count()).select_from(metric_keys).where(metric_keys.c.job_id == job_id)
    room = max(0, KEYS_AT_MOST - connection.execute(counted).scalar_one())
    refused = set(new[room:])
    kept = {key: columns for key, columns in points.items() if key not in refused}
    return kept, sum(len(points[key]) for key in refused)


def _group(plans: Iterable[_Plan]) -> list[ColumnElement[bool]]:
    """Where the pieces lie that are written anew. Keys that are reported together stand alike, and go together."""
    alike: dict[tuple[int, int], list[str]] = {}
    for plan in plans:
        if plan.absorbed:
            alike.setdefault((plan.first, plan.first + plan.absorbed - 1), []).append(plan.key)
    return [
        metric_chunks.c.key.in_(keys[start : start + _NAMES_A_QUERY]) & metric_chunks.c.number.between(first, last)
        for (first, last), keys in alike.items()
        for start in range(0, len(keys), _NAMES_A_QUERY)
    ]


def _load_pieces(
    connection: Connection, job_id: str, places: Sequence[ColumnElement[bool]]
) -> dict[tuple[str, int], Columns]:
    pieces: dict[tuple[str, int], Columns] = {}
    columns = [metric_chunks.c[name] for name in ("key", "number", "steps", "values", "times")]
    for place in places:
        rows = connection.execute(select(*columns).where(metric_chunks.c.job_id == job_id, place)).all()
        pieces.update(((key, number), Columns.unpack(*packed)) for key, number, *packed in rows)
    return pieces


def _replace_chunks(
    connection: Connection, job_id: str, places: Sequence[ColumnElement[bool]], rows: Sequence[dict[str, Any]]
) -> None:
    for place in places:
        connection.execute(delete(metric_chunks).where(metric_chunks.c.job_id == job_id, place))
    if rows:
        connection.execute(insert(metric_chunks), rows)


def _write_keys(connection: Connection, job_id: str, attempt: int, plans: Sequence[_Plan]) -> None:
    rows = {
        is_new: [
            {"b_key": plan.key, "points": plan.points, "chunks": plan.chunks, "pieces": " ".join(map(str, plan.pieces))}
            for plan in plans
            if plan.is_new is is_new
        ]
        for is_new in (True, False)
    }
    if rows[False]:
        here = (metric_keys.c.job_id == job_id) & (metric_keys.c.key == bindparam("b_key"))
        changes: dict[str, Any] = {name: bindparam(name) for name in ("points", "chunks", "pieces")}
        connection.execute(update(metric_keys).where(here).values({"attempt": attempt, **changes}), rows[False])
    if rows[True]:
        made = [{"job_id": job_id, "key": row.pop("b_key"), "attempt": attempt, **row} for row in rows[True]]
        connection.execute(insert(metric_keys), made)


def _write_pages(connection: Connection, job_id: str, key: str, wanted: int) -> None:
    """Bring the pages of a curve up to `wanted`, also those that an older version did not write."""
    here = (metric_pages.c.job_id == job_id) & (metric_pages.c.key == key)
    there = connection.execute(select(func.count()).select_from(metric_pages).where(here)).scalar_one()
    summaries = list_summaries(connection, [job_id], [key], there * PAGE_CHUNKS)[: (wanted - there) * PAGE_CHUNKS]
    for start in range(0, len(summaries), PAGE_CHUNKS):
        rollup = Rollup.empty()
        rollup.add_rows([row[2:] for row in summaries[start : start + PAGE_CHUNKS]])
        number = there + start // PAGE_CHUNKS + 1
        page = {"job_id": job_id, "key": key, "number": number, "chunks": rollup.pack()}
        connection.execute(insert(metric_pages).values(page))


def _build_chunk(columns: Columns) -> dict[str, Any]:
    summary = build_summary(columns)
    low, high, nan = summary.low, summary.high, summary.nan
    return {
        "count": summary.count,
        "first_step": summary.first_step,
        "last_step": summary.last_step,
        "min_step": low and low.step,
        "min_value": low and low.value,
        "min_time": low and low.time,
        "max_step": high and high.step,
        "max_value": high and high.value,
        "max_time": high and high.time,
        "nan_step": nan and nan.step,
        "nan_time": nan and nan.time,
        "steps": columns.steps.tobytes(),
        "values": columns.values.tobytes(),
        "times": columns.times.tobytes(),
    }
