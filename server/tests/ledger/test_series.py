from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.tests.databases import open_database
from starforge_console.domain.points import Columns
from starforge_console.ledger.database import Database
from starforge_console.ledger.point_reads import load_rollups
from starforge_console.ledger.points import add_points, list_keys
from starforge_console.ledger.series import (
    Segment,
    advance_stream,
    delete_series,
    end_streams,
    find_tail,
    keep_segment,
    list_segments,
    stream_state,
)


@pytest.fixture
def series(tmp_path: Path) -> Iterator[Database]:
    database = open_database(tmp_path, "series")
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


def test_a_deleted_job_leaves_nothing(series: Database) -> None:
    series.write_now(lambda c: add_points(c, "j", 1, {"loss": _columns(0, 3)}))
    series.write_now(lambda c: keep_segment(c, "a", "log", _segment(0, 10), 0))
    series.write_now(lambda c: delete_series(c, "j", ["a"]))
    assert series.read_now(lambda c: list_keys(c, "j")) == {}
    assert series.read_now(lambda c: load_rollups(c, [("j", "loss")])) == {}
    assert series.read_now(lambda c: stream_state(c, "a", "log")) == (0, False)
    assert series.read_now(lambda c: find_tail(c, "a", "log")) is None
