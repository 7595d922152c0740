"""Combinations of hyperparameters, and the hyperparameters of one of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from starforge.contract.canonical import Json
from starforge.contract.combinations import (
    are_same,
    count_combinations,
    describe_combination,
    describe_some,
    find_inside,
    find_values,
    list_combinations,
    put_values,
)
from starforge.contract.ids import is_job_id, is_sweep_id, new_job_id, new_sweep_id

NAMES = st.sampled_from(["a", "b", "c.d", "c.e", "f.g.h"])
VALUES: st.SearchStrategy[Json] = st.one_of(st.integers(), st.booleans(), st.text(max_size=3), st.just([1, "x"]))
GRIDS = st.dictionaries(NAMES, st.lists(VALUES, min_size=1, max_size=4), min_size=1)


@given(grid=GRIDS)
def test_there_are_as_many_combinations_as_counted_and_each_names_every_key(grid: dict[str, list[Json]]) -> None:
    listed = list(list_combinations(grid))
    assert len(listed) == count_combinations(grid)
    assert all(list(one) == list(grid) for one in listed)
    assert listed[0] == {key: values[0] for key, values in grid.items()}
    assert listed[-1] == {key: values[-1] for key, values in grid.items()}


@given(grid=GRIDS, other=VALUES)
def test_what_is_put_is_found_and_nothing_else_changes(grid: dict[str, list[Json]], other: Json) -> None:
    before: dict[str, Json] = {"c": {"kept": other}, "z": other}
    for combination in list_combinations(grid):
        put = put_values(before, combination)
        assert find_values(put, list(grid)) == combination
        assert put["z"] == other
        inner = put["c"]
        assert isinstance(inner, dict)
        assert inner["kept"] == other
    assert before == {"c": {"kept": other}, "z": other}


def test_the_values_of_the_last_key_change_first() -> None:
    listed = list_combinations({"a": [1, 2], "b": ["x", "y"]})
    assert [tuple(one.values()) for one in listed] == [(1, "x"), (1, "y"), (2, "x"), (2, "y")]


def test_a_key_below_what_is_no_map_cannot_be_put() -> None:
    with pytest.raises(ValueError, match=r"a\.b cannot be set: a holds no map"):
        put_values({"a": 1}, {"a.b": 2})
    assert put_values({"a": None}, {"a.b": 2}) == {"a": {"b": 2}}


def test_a_value_that_is_not_there_is_left_out() -> None:
    assert find_values({"a": 1, "b": {"c": None}}, ["a", "a.x", "b.c", "d"]) == {"a": 1}


@pytest.mark.parametrize(
    ("one", "other", "same"), [(1, 1, True), (1, True, False), (1, 1.0, False), ([1], [1], True), ("1", 1, False)]
)
def test_values_are_the_same_where_their_specs_would_be(one: Json, other: Json, *, same: bool) -> None:
    assert are_same(one, other) is same


def test_a_key_inside_another_one_is_found_whatever_their_order() -> None:
    assert find_inside(["a.b", "a"]) == find_inside(["a", "a.b"]) == ("a.b", "a")
    assert find_inside(["a", "ab", "b.a"]) is None


def test_a_combination_is_one_line() -> None:
    shown = describe_combination({"lr": 1e-5, "name": "ä", "bf16": True, "betas": [0.9, 0.95]})
    assert shown == "lr=1e-05 name=ä bf16=true betas=[0.9, 0.95]"


def test_sweeps_have_ids_of_their_own() -> None:
    assert all(is_sweep_id(new_sweep_id()) for _ in range(50))
    assert not is_job_id(new_sweep_id())
    assert not is_sweep_id(new_job_id())


@pytest.mark.parametrize(
    ("having", "text"),
    [
        (1, "1 of 5 combinations: n=0"),
        (3, "3 of 5 combinations: n=0; n=1; n=2"),
        (4, "4 of 5 combinations: n=0; n=1; n=2; and 1 more"),
        (5, ""),
    ],
)
def test_the_first_of_some_combinations_are_named_and_none_where_it_is_all(having: int, text: str) -> None:
    assert describe_some([{"n": number} for number in range(having)], 5) == text
