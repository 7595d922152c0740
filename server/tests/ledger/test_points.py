"""Points of curves: however they arrive, the same come back; many keys, many points, and their roll-ups."""

import math
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, delete, event, select, update

from server.tests.databases import open_database, sqlite_only
from starforge_console.domain.points import Columns, build_summary
from starforge_console.domain.rollup import Rollup
from starforge_console.ledger.database import Database
from starforge_console.ledger.metric_tables import metric_keys, metric_pages
from starforge_console.ledger.point_reads import PAGE_CHUNKS, load_chunks, load_rollups
from starforge_console.ledger.points import (
    CHUNK_POINTS,
    KEYS_AT_MOST,
    add_points,
    count_points,
    delete_points,
    list_keys,
    search_keys,
)


@pytest.fixture
def series(tmp_path: Path) -> Iterator[Database]:
    database = open_database(tmp_path, "series")
    yield database
    database.close()


def _columns(first: int, count: int) -> Columns:
    steps = range(first, first + count)
    return Columns(array("q", steps), array("d", map(float, steps)), array("d", map(float, steps)))


def _load_rollup(connection: Connection, job: str, key: str) -> Rollup:
    return load_rollups(connection, [(job, key)]).get((job, key), Rollup.empty())


def _load_points(connection: Connection, job: str, key: str) -> list[tuple[int, int]]:
    """(attempt, step) of all points in order of arrival; each chunk's row of the roll-up is checked against them."""
    rollup = _load_rollup(connection, job, key)
    chunks = load_chunks(connection, {(job, key): rollup.numbers})[job, key]
    assert list(rollup.numbers) == list(range(1, len(rollup) + 1))
    points = []
    for row, number in enumerate(rollup.numbers):
        summary, one = build_summary(chunks[number]), rollup.pick([row])
        assert (one.counts[0], one.first_steps[0], one.last_steps[0]) == (
            summary.count,
            summary.first_step,
            summary.last_step,
        )
        points += [(rollup.attempts[row], step) for step in chunks[number].steps]
    return points


def test_full_chunks_are_the_same_however_points_arrive(series: Database) -> None:
    series.write_now(lambda c: add_points(c, "whole", 1, {"loss": _columns(0, 2500)}))
    for first in range(0, 2500, 125):
        points = {"loss": _columns(first, 125)}
        series.write_now(lambda c: add_points(c, "parts", 1, points))  # noqa: B023 - called at once
    whole = series.read_now(lambda c: _load_rollup(c, "whole", "loss"))
    parts = series.read_now(lambda c: _load_rollup(c, "parts", "loss"))
    assert whole.counts[:2] == parts.counts[:2] == array("q", [CHUNK_POINTS, CHUNK_POINTS])
    assert whole.pick([0, 1]).pack() == parts.pick([0, 1]).pack()
    assert sum(parts.counts) == 2500
    assert series.read_now(lambda c: list_keys(c, "parts")) == {"loss": 2500}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(1, 2), st.sampled_from([1, 2, 3, 100, 1000, 1024, 1500])), min_size=1, max_size=25)
)
def test_whatever_is_sent_comes_back_once_and_in_order(series: Database, sends: list[tuple[int, int]]) -> None:
    series.write_now(lambda c: delete_points(c, "j"))
    wanted: list[tuple[int, int]] = []
    for attempt, size in sends:
        columns = _columns(len(wanted), size)
        series.write_now(lambda c: add_points(c, "j", attempt, {"k": columns, "other": columns}))  # noqa: B023 - at once
        wanted += [(attempt, step) for step in columns.steps]
        assert series.read_now(lambda c: _load_points(c, "j", "k")) == wanted
    assert series.read_now(lambda c: count_points(c, "j")) == (2, 2 * len(wanted))


def test_single_points_are_rewritten_a_few_times_each_not_each_time(series: Database) -> None:
    written = 0

    def _count(_connection: object, _cursor: object, statement: str, parameters: object, *_more: object) -> None:
        nonlocal written
        if statement.startswith("INSERT INTO metric_chunks"):
            rows: Any = parameters if isinstance(parameters, list) else [parameters]
            written += sum(len(value) for row in rows for value in row if isinstance(value, bytes)) // 24

    def _write(connection: Connection) -> None:
        event.listen(connection, "before_cursor_execute", _count)
        for step in range(2 * CHUNK_POINTS):
            add_points(connection, "j", 1, {"k": _columns(step, 1)})

    series.write_now(_write)
    assert written < 2 * CHUNK_POINTS * 12
    counts = series.read_now(lambda c: _load_rollup(c, "j", "k")).counts
    assert list(counts) == [CHUNK_POINTS, CHUNK_POINTS]


def test_another_attempt_begins_a_chunk_of_its_own(series: Database) -> None:
    series.write_now(lambda c: add_points(c, "j", 1, {"loss": _columns(0, 10)}))
    series.write_now(lambda c: add_points(c, "j", 2, {"loss": _columns(5, 10)}))
    rollup = series.read_now(lambda c: _load_rollup(c, "j", "loss"))
    assert (list(rollup.attempts), list(rollup.first_steps), list(rollup.counts)) == ([1, 2], [0, 5], [10, 10])
    assert series.read_now(lambda c: load_chunks(c, {("j", "loss"): [2]}))["j", "loss"][2] == _columns(5, 10)


def test_points_of_too_many_keys_are_counted_and_left_out(series: Database) -> None:
    many = {f"k{number}": _columns(0, 1) for number in range(KEYS_AT_MOST)}
    assert series.write_now(lambda c: add_points(c, "j", 1, many)) == 0
    assert series.write_now(lambda c: add_points(c, "j", 1, {"new": _columns(0, 3), "k0": _columns(1, 1)})) == 3
    keys = series.read_now(lambda c: list_keys(c, "j"))
    assert len(keys) == KEYS_AT_MOST
    assert keys["k0"] == 2


def test_keys_are_searched_whatever_their_case_and_listed_a_page_at_a_time(series: Database) -> None:
    names = ["Loss", "eval/loss", "eval/acc%", "train_loss", "z"]
    series.write_now(lambda c: add_points(c, "j", 1, {name: _columns(0, 2) for name in names}))

    def _search(text: str = "", after: str = "", limit: int = 100) -> list[str]:
        return [one.key for one in series.read_now(lambda c: search_keys(c, "j", text, after=after, limit=limit))]

    assert _search("LOSS") == ["Loss", "eval/loss", "train_loss"]
    assert _search("%") == ["eval/acc%"]
    assert _search("n_l") == ["train_loss"]
    assert _search(limit=2) == ["Loss", "eval/acc%"]
    assert _search(after="eval/acc%", limit=2) == ["eval/loss", "train_loss"]


def test_pages_hold_the_summaries_of_chunks_that_change_no_more(series: Database) -> None:
    size = CHUNK_POINTS * (2 * PAGE_CHUNKS + 3) + 5
    values = array("d", [math.nan if step == 7 else float(step % 97) for step in range(size)])
    columns = Columns(array("q", range(size)), values, array("d", range(size)))
    series.write_now(lambda c: add_points(c, "j", 1, {"k": columns}))
    pages = series.read_now(lambda c: c.execute(select(metric_pages.c.number)).scalars().all())
    assert list(pages) == [1, 2]
    from_pages = series.read_now(lambda c: _load_rollup(c, "j", "k"))
    series.write_now(lambda c: c.execute(delete(metric_pages)))
    from_chunks = series.read_now(lambda c: _load_rollup(c, "j", "k"))
    assert from_pages.pack() == from_chunks.pack()
    assert from_pages.has_nan


def test_a_curve_that_an_older_version_wrote_gets_its_pages_when_it_grows(series: Database) -> None:
    series.write_now(lambda c: add_points(c, "j", 1, {"k": _columns(0, CHUNK_POINTS * PAGE_CHUNKS)}))
    series.write_now(lambda c: add_points(c, "j", 1, {"k": _columns(CHUNK_POINTS * PAGE_CHUNKS, 10)}))

    def _age(connection: Connection) -> None:
        connection.execute(delete(metric_pages))
        connection.execute(update(metric_keys).values(pieces=None, attempt=None))

    series.write_now(_age)
    first = CHUNK_POINTS * PAGE_CHUNKS + 10
    series.write_now(lambda c: add_points(c, "j", 1, {"k": _columns(first, CHUNK_POINTS * PAGE_CHUNKS)}))
    assert [step for _, step in series.read_now(lambda c: _load_points(c, "j", "k"))] == list(
        range(first + CHUNK_POINTS * PAGE_CHUNKS)
    )
    assert series.read_now(lambda c: c.execute(select(metric_pages.c.number)).scalars().all()) == [1, 2]


def test_a_send_of_a_few_points_leaves_the_large_pieces_alone(series: Database) -> None:
    for first, count in ((0, 600), (600, 3), (603, 2)):
        points = {"k": _columns(first, count)}
        series.write_now(lambda c: add_points(c, "j", 1, points))  # noqa: B023 - called at once
    assert list(series.read_now(lambda c: _load_rollup(c, "j", "k")).counts) == [600, 3, 2]


@sqlite_only
def test_the_pieces_of_many_keys_are_found_by_the_primary_key(series: Database) -> None:
    asked: list[tuple[str, Any]] = []

    def _note(_connection: object, _cursor: object, statement: str, parameters: object, *_more: object) -> None:
        asked.append((statement, parameters))

    def _write(connection: Connection) -> list[str]:
        for step in range(2):
            add_points(connection, "j", 1, {f"k{number}": _columns(step, 1) for number in range(3)})
            event.listen(connection, "before_cursor_execute", _note)
        reads = [one for one in asked if one[0].startswith("SELECT metric_chunks")]
        assert len(reads) == 1
        return [str(row[3]) for row in connection.exec_driver_sql("EXPLAIN QUERY PLAN " + reads[0][0], reads[0][1])]

    plan = series.write_now(_write)
    assert [
        line for line in plan if "metric_chunks" in line and "(job_id=? AND key=? AND number>? AND number<?)" in line
    ]


@given(st.lists(st.lists(st.floats(allow_nan=True), min_size=1, max_size=5), min_size=1, max_size=8))
def test_a_roll_up_survives_being_packed_and_merges_as_its_points_do(chunks: list[list[float]]) -> None:
    rollup, everything = Rollup.empty(), Columns.empty()
    for number, values in enumerate(chunks, start=1):
        first = len(everything)
        steps = range(first, first + len(values))
        columns = Columns(array("q", steps), array("d", values), array("d", map(float, steps)))
        rollup.add(number, 1, build_summary(columns))
        everything.extend(columns)
    unpacked = Rollup.empty()
    unpacked.add_packed(rollup.pack())
    assert unpacked.pack() == rollup.pack()
    merged = unpacked.list_extremes([(0, len(unpacked))], has_nan=unpacked.has_nan)
    wanted = build_summary(everything).points()
    assert {(step, repr(value)) for step, value, _ in merged} == {(point.step, repr(point.value)) for point in wanted}
