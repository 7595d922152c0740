from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest

from starforge_console.domain.points import Columns
from starforge_console.ledger.database import Database, upgrade_schema
from starforge_console.ledger.series import (
    CHUNK_POINTS,
    KEYS_AT_MOST,
    Segment,
    add_points,
    advance_stream,
    delete_series,
    end_streams,
    find_tail,
    keep_segment,
    list_keys,
    list_segments,
    list_summaries,
    load_chunks,
    stream_state,
)


@pytest.fixture
def series(tmp_path: Path) -> Iterator[Database]:
    upgrade_schema(tmp_path / "series.db", "series")
    database = Database(tmp_path / "series.db", "series")
    yield database
    database.close()


def _columns(first: int, count: int) -> Columns:
    steps = range(first, first + count)
    return Columns(array("q", steps), array("d", map(float, steps)), array("d", map(float, steps)))


def _segment(from_byte: int, to_byte: int, crc: int = 1) -> Segment:
    return Segment(from_byte=from_byte, to_byte=to_byte, file="f", position=from_byte, crc=crc)


def test_a_mark_moves_only_from_where_it_stands(series: Database) -> None:
    assert not series.write_now(lambda c: advance_stream(c, "a", "log", 5, 9))
    assert series.write_now(lambda c: advance_stream(c, "a", "log", 0, 5))
    assert not series.write_now(lambda c: advance_stream(c, "a", "log", 0, 5))
    assert series.read_now(lambda c: stream_state(c, "a", "log")) == (5, False)


def test_an_ended_stream_moves_no_more(series: Database) -> None:
    series.write_now(lambda c: advance_stream(c, "a", "log", 0, 5))
    series.write_now(lambda c: end_streams(c, "a", ["log", "events"]))
    assert not series.write_now(lambda c: advance_stream(c, "a", "log", 5, 6))
    assert series.read_now(lambda c: stream_state(c, "a", "log")) == (5, True)
    assert series.read_now(lambda c: stream_state(c, "a", "events")) == (0, True)


def test_a_segment_is_indexed_with_its_mark_or_not_at_all(series: Database) -> None:
    assert series.write_now(lambda c: keep_segment(c, "a", "log", _segment(0, 10), 0))
    assert not series.write_now(lambda c: keep_segment(c, "a", "log", _segment(10, 20), 7))
    assert series.write_now(lambda c: keep_segment(c, "a", "log", _segment(0, 15, crc=2), 10))
    assert series.write_now(lambda c: keep_segment(c, "a", "log", _segment(15, 30), 15))
    kept = series.read_now(lambda c: list_segments(c, "a", "log", 0, 10))
    assert kept == [_segment(0, 15, crc=2), _segment(15, 30)]
    assert series.read_now(lambda c: list_segments(c, "a", "log", 15, 10)) == [_segment(15, 30)]
    assert series.read_now(lambda c: find_tail(c, "a", "log")) == _segment(15, 30)


def test_chunks_are_the_same_however_points_arrive(series: Database) -> None:
    series.write_now(lambda c: add_points(c, "whole", 1, {"loss": _columns(0, 2500)}))
    for first in range(0, 2500, 125):
        points = {"loss": _columns(first, 125)}
        series.write_now(lambda c: add_points(c, "parts", 1, points))  # noqa: B023 - called at once
    whole = series.read_now(lambda c: list_summaries(c, "whole", "loss"))
    assert whole == series.read_now(lambda c: list_summaries(c, "parts", "loss"))
    assert [chunk.summary.count for chunk in whole] == [CHUNK_POINTS, CHUNK_POINTS, 452]
    assert series.read_now(lambda c: list_keys(c, "parts")) == {"loss": 2500}


def test_another_attempt_begins_a_chunk_of_its_own(series: Database) -> None:
    series.write_now(lambda c: add_points(c, "j", 1, {"loss": _columns(0, 10)}))
    series.write_now(lambda c: add_points(c, "j", 2, {"loss": _columns(5, 10)}))
    chunks = series.read_now(lambda c: list_summaries(c, "j", "loss"))
    assert [(chunk.attempt, chunk.summary.first_step, chunk.summary.count) for chunk in chunks] == [
        (1, 0, 10),
        (2, 5, 10),
    ]
    assert series.read_now(lambda c: load_chunks(c, "j", "loss", [2]))[2] == _columns(5, 10)


def test_points_of_too_many_keys_are_counted_and_left_out(series: Database) -> None:
    many = {f"k{number}": _columns(0, 1) for number in range(KEYS_AT_MOST)}
    assert series.write_now(lambda c: add_points(c, "j", 1, many)) == 0
    assert series.write_now(lambda c: add_points(c, "j", 1, {"new": _columns(0, 3), "k0": _columns(1, 1)})) == 3
    keys = series.read_now(lambda c: list_keys(c, "j"))
    assert len(keys) == KEYS_AT_MOST
    assert keys["k0"] == 2


def test_a_deleted_job_leaves_nothing(series: Database) -> None:
    series.write_now(lambda c: add_points(c, "j", 1, {"loss": _columns(0, 3)}))
    series.write_now(lambda c: keep_segment(c, "a", "log", _segment(0, 10), 0))
    series.write_now(lambda c: delete_series(c, "j", ["a"]))
    assert series.read_now(lambda c: list_keys(c, "j")) == {}
    assert series.read_now(lambda c: list_summaries(c, "j", "loss")) == []
    assert series.read_now(lambda c: stream_state(c, "a", "log")) == (0, False)
    assert series.read_now(lambda c: find_tail(c, "a", "log")) is None
