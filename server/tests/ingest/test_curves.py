import math
from array import array
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.tests.ingest.builders import open_site, run
from starforge.errors import NotFound
from starforge_console.domain.points import Columns, build_summary
from starforge_console.ingest.curves import Curves, build_curve
from starforge_console.ledger.series import CHUNK_POINTS, ChunkSummary, add_points


def _columns(first: int, values: list[float]) -> Columns:
    steps = range(first, first + len(values))
    return Columns(array("q", steps), array("d", values), array("d", [float(step) for step in steps]))


def _chunks(*attempts: Columns) -> tuple[list[ChunkSummary], dict[int, Columns]]:
    loaded: dict[int, Columns] = {}
    chunks: list[ChunkSummary] = []
    for attempt, columns in enumerate(attempts, start=1):
        for start in range(0, len(columns), CHUNK_POINTS):
            number = len(chunks) + 1
            loaded[number] = columns.part(start, start + CHUNK_POINTS)
            chunks.append(ChunkSummary(number, attempt, build_summary(loaded[number])))
    return chunks, loaded


def _draw(wanted: int, *attempts: Columns) -> list[tuple[int, float]]:
    chunks, loaded = _chunks(*attempts)
    drawn = build_curve(chunks, lambda numbers: {number: loaded[number] for number in numbers}, wanted)
    assert drawn is not None
    return [(point.step, point.value) for point in drawn.points]


def test_a_short_curve_is_given_whole() -> None:
    assert _draw(100, _columns(0, [3.0, 1.0, 2.0])) == [(0, 3.0), (1, 1.0), (2, 2.0)]


def test_a_million_points_are_drawn_from_summaries_with_their_extremes() -> None:
    values = [math.sin(index / 5000) for index in range(1_000_000)]
    values[123_456], values[654_321] = 9.0, -9.0
    chunks, loaded = _chunks(_columns(0, values))
    asked: set[int] = set()

    def _load(numbers: object) -> dict[int, Columns]:
        assert isinstance(numbers, set)
        asked.update(numbers)
        return {number: loaded[number] for number in numbers}

    drawn = build_curve(chunks, _load, 1000)
    assert drawn is not None
    assert 500 <= len(drawn.points) <= 1000
    assert drawn.total == 1_000_000
    assert len(asked) == 2  # the first and the last chunk, for the curve's ends
    shown = {(point.step, point.value) for point in drawn.points}
    assert {(0, values[0]), (123_456, 9.0), (654_321, -9.0), (999_999, values[-1])} <= shown


def test_a_newer_attempt_counts_from_its_first_step_on() -> None:
    first, second = _columns(0, [1.0] * 10), _columns(6, [2.0] * 10)
    assert _draw(100, first, second) == [(step, 1.0 if step < 6 else 2.0) for step in range(16)]


def test_a_newer_attempt_counts_in_a_curve_of_summaries_too() -> None:
    first, second = _columns(0, [1.0] * 50_000), _columns(30_000, [2.0] * 40_000)
    shown = _draw(60, first, second)
    assert all(value == (1.0 if step < 30_000 else 2.0) for step, value in shown)
    assert shown[0][0] == 0
    assert shown[-1][0] == 69_999


@given(
    st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=300),
    st.integers(8, 60),
)
def test_extremes_ends_and_nan_survive_any_thinning(values: list[float], wanted: int) -> None:
    shown = _draw(wanted, _columns(0, values))
    assert len(shown) <= wanted
    assert [step for step, _ in shown] == sorted(step for step, _ in shown)
    numbers = [value for value in values if not math.isnan(value)]
    drawn = [value for _, value in shown if not math.isnan(value)]
    if numbers:
        assert (min(drawn), max(drawn)) == (min(numbers), max(numbers))
    assert any(map(math.isnan, values)) == any(math.isnan(value) for _, value in shown)
    assert (shown[0][0], shown[-1][0]) == (0, len(values) - 1)


def test_the_answer_spells_nan_and_infinities(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            points = {"loss": _columns(0, [math.nan, math.inf, -math.inf, 0.5])}
            await site.stores.series.write(lambda c: add_points(c, "j1", 1, points))
            curve = await Curves(site.stores.series).curve("j1", "loss", 100)
            assert curve.values == ("nan", "inf", "-inf", 0.5)
            assert (curve.steps, curve.total_points) == ((0, 1, 2, 3), 4)
            with pytest.raises(NotFound):
                await Curves(site.stores.series).curve("j1", "other", 100)

    run(_scenario())
