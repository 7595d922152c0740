"""Fair share: what was used of late, decayed, by user and team."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from starforge_console.domain.fair_share import HALF_LIFE_S, Held, Share, Use, add_span, build_shares, decay

TIMES = st.floats(0, 4e9)
GPUS = st.integers(1, 64)


def test_use_counts_half_after_a_half_life() -> None:
    assert decay(Use(100.0, 0.0), HALF_LIFE_S).gpu_s == pytest.approx(50.0)
    assert decay(Use(100.0, 0.0), 3 * HALF_LIFE_S).gpu_s == pytest.approx(12.5)


def test_a_short_span_counts_as_it_was() -> None:
    assert add_span(Use(), 8, 1000.0, 1060.0).gpu_s == pytest.approx(480.0, rel=1e-3)


def test_a_clock_that_was_set_back_adds_nothing() -> None:
    assert decay(Use(100.0, 500.0), 10.0) == (100.0, 500.0)
    later = add_span(Use(100.0, 500.0), 8, 600.0, 550.0)
    assert later.gpu_s == pytest.approx(100.0, rel=1e-3)
    assert later.at == 550.0


@given(GPUS, TIMES, st.floats(0, 1e7), st.floats(0, 1e7))
def test_a_span_counts_the_same_in_one_piece_or_in_two(gpus: int, since: float, first: float, second: float) -> None:
    whole = add_span(Use(), gpus, since, since + first + second)
    parts = add_span(add_span(Use(), gpus, since, since + first), gpus, since + first, since + first + second)
    assert parts.gpu_s == pytest.approx(whole.gpu_s, rel=1e-6, abs=1e-2)


@given(st.floats(0, 1e9), st.floats(0, 1e9), TIMES, st.floats(0, 1e8))
def test_waiting_changes_nobodys_order(one: float, other: float, at: float, later: float) -> None:
    before, after = one <= other, decay(Use(one, at), at + later).gpu_s <= decay(Use(other, at), at + later).gpu_s
    assert after or not before


def test_a_team_is_charged_for_all_of_its_members_and_a_user_without_one_alone() -> None:
    teams: dict[int, str | None] = {1: "vision", 2: "vision", 3: None, 4: "idle"}
    shares = build_shares({1: Use(60.0, 100.0), 3: Use(5.0, 100.0)}, [Held(2, 2, 80.0)], teams, 100.0)
    assert [*shares[1], *shares[2]] == pytest.approx([100.0, 60.0, 100.0, 40.0], rel=1e-3)
    assert shares[3] == Share(5.0, 5.0)
    assert 4 not in shares
