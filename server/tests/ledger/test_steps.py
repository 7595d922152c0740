"""How far jobs have trained: the newest attempt's highest step, whatever arrives in which order."""

from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.tests.databases import open_database
from starforge_console.domain.points import Columns
from starforge_console.ledger.database import Database
from starforge_console.ledger.points import add_points, delete_points
from starforge_console.ledger.steps import load_steps


@pytest.fixture
def series(tmp_path: Path) -> Iterator[Database]:
    database = open_database(tmp_path, "series")
    yield database
    database.close()


def report(series: Database, attempt: int, key: str, *steps: int) -> int | None:
    """Let the attempt report a point at each step; gives the job's step after it."""
    columns = Columns(array("q", steps), array("d", [0.5] * len(steps)), array("d", [1.0] * len(steps)))
    series.write_now(lambda c: add_points(c, "j", attempt, {key: columns}))
    return series.read_now(lambda c: load_steps(c, ["j"])).get("j")


def test_the_step_is_the_highest_of_any_curve(series: Database) -> None:
    assert [report(series, 1, "loss", 10, 30, 20), report(series, 1, "eval/loss", 25), report(series, 1, "lr", 31)] == [
        30,
        30,
        31,
    ]


def test_what_the_runner_measures_of_the_machine_by_the_clock_is_no_step_of_the_training(series: Database) -> None:
    assert report(series, 1, "system/cpu_percent", 1_796_037_210) is None
    assert report(series, 1, "loss", 40) == 40
    assert report(series, 1, "system/gpu0/used_bytes", 1_796_037_220) == 40
    assert report(series, 2, "system/cpu_percent", 1_796_037_230) == 40


def test_a_newer_attempt_begins_anew_and_what_comes_late_from_an_older_one_changes_nothing(series: Database) -> None:
    assert [report(series, 1, "loss", 40), report(series, 2, "loss", 21), report(series, 1, "loss", 41)] == [40, 21, 21]


def test_a_job_without_points_has_no_step_and_a_deleted_one_none_any_more(series: Database) -> None:
    assert series.read_now(lambda c: load_steps(c, ["j", *map(str, range(2000))])) == {}
    report(series, 1, "loss", 3)
    series.write_now(lambda c: delete_points(c, "j"))
    assert series.read_now(lambda c: load_steps(c, ["j"])) == {}
