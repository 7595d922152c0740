import math
from array import array
from collections.abc import Coroutine
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.tests.ingest.builders import Site, open_site, run
from starforge.errors import NotFound
from starforge_console.domain.drawing import EVERYTHING, Look, Window, draw_curve, plan_curve
from starforge_console.domain.points import Columns, build_summary
from starforge_console.domain.rollup import Rollup
from starforge_console.ingest.curves import Curves
from starforge_console.ledger.points import CHUNK_POINTS, add_points


def _columns(first: int, values: list[float]) -> Columns:
    steps = range(first, first + len(values))
    return Columns(array("q", steps), array("d", values), array("d", [float(step) for step in steps]))


def _chunks(*attempts: Columns) -> tuple[Rollup, dict[int, Columns]]:
    loaded: dict[int, Columns] = {}
    chunks = Rollup.empty()
    for attempt, columns in enumerate(attempts, start=1):
        for start in range(0, len(columns), CHUNK_POINTS):
            number = len(chunks) + 1
            loaded[number] = columns.part(start, start + CHUNK_POINTS)
            chunks.add(number, attempt, build_summary(loaded[number]))
    return chunks, loaded


def _draw(wanted: int, *attempts: Columns, window: Window = EVERYTHING) -> list[tuple[int, float]]:
    chunks, loaded = _chunks(*attempts)
    plan = plan_curve(chunks, wanted, window)
    assert plan is not None
    drawn = draw_curve(plan, {number: loaded[number] for number in plan.numbers})
    return list(zip(drawn.steps, drawn.values, strict=True))


def test_a_short_curve_is_given_whole() -> None:
    assert _draw(100, _columns(0, [3.0, 1.0, 2.0])) == [(0, 3.0), (1, 1.0), (2, 2.0)]


def test_a_million_points_are_drawn_from_summaries_with_their_extremes() -> None:
    values = [math.sin(index / 5000) for index in range(1_000_000)]
    values[123_456], values[654_321] = 9.0, -9.0
    chunks, loaded = _chunks(_columns(0, values))
    plan = plan_curve(chunks, 1000)
    assert plan is not None
    assert len(plan.numbers) == 2  # the first and the last chunk, for the curve's ends
    drawn = draw_curve(plan, {number: loaded[number] for number in plan.numbers})
    assert 500 <= len(drawn.steps) <= 1000
    assert drawn.total == 1_000_000
    shown = set(zip(drawn.steps, drawn.values, strict=True))
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


def test_a_part_of_a_long_curve_is_drawn_finer_than_the_whole() -> None:
    values = [math.sin(index / 5000) for index in range(1_000_000)]
    values[500_123], values[100] = 9.0, -9.0
    whole = [step for step, _ in _draw(1000, _columns(0, values)) if 500_000 <= step <= 501_000]
    shown = _draw(1000, _columns(0, values), window=Window(500_000, 501_000))
    assert len(whole) < 10
    assert len(shown) > 400
    assert (shown[0][0], shown[-1][0]) == (500_000, 501_000)
    assert (500_123, 9.0) in shown
    assert _draw(1000, _columns(0, values), window=Window(500_000, 500_499)) == [
        (step, values[step]) for step in range(500_000, 500_500)
    ]


def test_a_part_as_wide_as_many_chunks_is_drawn_from_summaries_and_ends_where_it_is_asked_to() -> None:
    values = [math.sin(index / 5000) for index in range(1_000_000)]
    values[99_999] = values[900_001] = 9.0  # just outside, in chunks of which a part is inside
    shown = _draw(500, _columns(0, values), window=Window(100_000, 900_000))
    assert 200 <= len(shown) <= 500
    assert (shown[0][0], shown[-1][0]) == (100_000, 900_000)
    assert max(value for _, value in shown) <= 1.0


@pytest.mark.parametrize("window", [Window(-5, -1), Window(300_000, 400_000), Window(1, 1)])
def test_where_a_curve_has_no_step_nothing_is_drawn(window: Window) -> None:
    steps = range(0, 300_000, 2)
    some = Columns(array("q", steps), array("d", map(float, steps)), array("d", map(float, steps)))
    assert _draw(100, some, window=window) == []
    assert _draw(8, some, window=window) == []


@given(
    st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=60),
    st.integers(8, 30),
    st.integers(-5, 65),
    st.integers(0, 70),
)
def test_a_part_shows_what_a_curve_of_its_points_alone_would(
    values: list[float], wanted: int, first: int, width: int
) -> None:
    last = first + width
    inside = [(step, value) for step, value in enumerate(values) if first <= step <= last]
    shown = _draw(wanted, _columns(0, values), window=Window(first, last))
    assert len(shown) <= wanted
    alone = _draw(wanted, _columns(inside[0][0], [value for _, value in inside])) if inside else []
    numbers = [[(step, value) for step, value in part if not math.isnan(value)] for part in (shown, alone)]
    assert numbers[0] == numbers[1]


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


def _receive(site: Site, *attempts: Columns) -> Coroutine[object, object, None]:
    async def _write() -> None:
        for number, columns in enumerate(attempts, start=1):
            points = {"loss": columns}
            await site.stores.series.write(lambda c: add_points(c, "j1", number, points))  # noqa: B023 - awaited at once

    return _write()


def test_both_attempts_can_be_seen_where_the_later_one_counts(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            await _receive(site, _columns(0, [1.0] * 10), _columns(6, [2.0] * 10))
            curves = Curves(site.stores.series)
            joined, first, second = [await curves.curve("j1", "loss", 100, attempt) for attempt in (None, 1, 2)]
            assert (joined.total_points, joined.values) == (16, (1.0,) * 6 + (2.0,) * 10)
            assert (first.total_points, first.values) == (10, (1.0,) * 10)
            assert (second.steps, second.values) == (tuple(range(6, 16)), (2.0,) * 10)
            with pytest.raises(NotFound, match="attempt 3 of job j1"):
                await curves.curve("j1", "loss", 100, 3)

    run(_scenario())


def test_many_curves_are_read_at_once_each_as_it_is_asked_for(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            for job, count in (("j1", 200_000), ("j2", 200_000), ("j3", 70)):
                points = {key: _columns(0, [float(len(key))] * count) for key in ("a", "bb")}
                await site.stores.series.write(lambda c: add_points(c, job, 1, points))  # noqa: B023 - awaited at once
            await site.stores.series.write(lambda c: add_points(c, "j3", 1, {"ccc": _columns(0, [3.0])}))
            curves = Curves(site.stores.series)
            names = [(job, key) for key in ("a", "bb", "ccc") for job in ("j1", "j2", "j3", "j4")]
            looks = {name: Look(50, window=Window(10, 20 + place)) for place, name in enumerate(names)}
            found = await curves.look(looks)
            assert list(found) == [(j, k) for k in ("a", "bb") for j in ("j1", "j2", "j3")] + [("j3", "ccc")]
            for (job, key), curve in found.items():
                assert curve == await curves.curve(job, key, 50, window=looks[job, key].window)
                assert set(curve.values) <= {float(len(key))}
            assert [one.total_points for one in found.values()] == [11, 12, 13, 15, 16, 17, 0]
            assert list(await curves.curves([("j2", "a"), ("j9", "a")], 50)) == [("j2", "a")]

    run(_scenario())


def test_every_point_is_given_in_order_of_arrival_also_while_more_arrive(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            await _receive(site, _columns(0, [1.0] * 40_000), _columns(30_000, [2.0] * 40_500))
            curves, found = Curves(site.stores.series), []
            async for attempt, columns in curves.points("j1", "loss"):
                found += [(attempt, step) for step in columns.steps]
                if len(found) < 20_000:  # what can still grow into one was read at the beginning
                    await _receive(site, Columns.empty(), _columns(70_500, [2.0] * 600))
            assert found == [(1, step) for step in range(40_000)] + [(2, step) for step in range(30_000, 70_500)]
            alone = [step async for _, columns in curves.points("j1", "loss", 1) for step in columns.steps]
            assert alone == list(range(40_000))
            assert [one async for one in curves.points("j1", "other")] == []

    run(_scenario())


def test_steps_out_of_order_are_drawn_in_order(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            steps = [5, 3, 9, 3, 1]
            columns = Columns(array("q", steps), array("d", map(float, range(5))), array("d", map(float, range(5))))
            await _receive(site, columns)
            curve = await Curves(site.stores.series).curve("j1", "loss", 100)
            assert (curve.steps, curve.values) == ((1, 3, 3, 5, 9), (4.0, 1.0, 3.0, 0.0, 2.0))

    run(_scenario())
