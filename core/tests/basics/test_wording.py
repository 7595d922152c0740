import pytest

from starforge.errors import StarForgeError
from starforge.wording import (
    count_of,
    cut_middle,
    describe_bytes,
    describe_duration,
    describe_nearest,
    join_sentences,
    split_duration,
)


@pytest.mark.parametrize(("count", "text"), [(0, "0 files"), (1, "1 file"), (2, "2 files")])
def test_a_noun_follows_its_count(count: int, text: str) -> None:
    assert count_of(count, "file") == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0 s"),
        (0.9, "0 s"),
        (59.9, "59 s"),
        (95, "1 min 35 s"),
        (3600, "1 h"),
        (3605, "1 h"),
        (90_000, "1 d 1 h"),
        (86_400 * 30 + 60, "30 d"),
    ],
)
def test_a_length_of_time_is_told_in_two_units_that_follow_one_another(seconds: float, text: str) -> None:
    assert describe_duration(seconds) == text


def test_an_age_is_told_in_one_unit() -> None:
    assert [split_duration(seconds, 1) for seconds in (0, 95, 7300)] == [[(0, "s")], [(1, "min")], [(2, "h")]]


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        ((1 << 20) - 1, "1.0 MiB"),
        (5 << 20, "5.0 MiB"),
        (5 << 30, "5.0 GiB"),
        (3 << 60, "3072.0 PiB"),
    ],
)
def test_a_size_is_told_in_the_binary_unit_that_suits_it(count: int, text: str) -> None:
    assert describe_bytes(count) == text


def test_sentences_are_joined_by_the_sign_that_they_lack() -> None:
    assert join_sentences("one", "", "two.", "three?", "four") == "one. two. three? four"


def test_of_a_text_that_is_too_long_the_middle_is_left_out() -> None:
    assert cut_middle("x" * 20, 20) == "x" * 20
    assert cut_middle("the beginning, and much more, and the end", 20) == "the beg [\u2026] the end"


def test_an_error_reads_as_its_three_parts() -> None:
    assert str(StarForgeError("no profile x", why="it is new", next_step="did you mean y?")) == (
        "no profile x. it is new. did you mean y?"
    )


def test_the_nearest_name_is_suggested_and_otherwise_all_are_listed() -> None:
    assert describe_nearest("costum", ["custom", "trl"]) == "did you mean 'custom'?"
    assert describe_nearest("zzz", ["trl", "custom"]) == "known here: custom, trl"
    assert describe_nearest("zzz", []) == ""


def test_of_many_names_none_of_which_is_near_the_nearest_are_told_and_not_all() -> None:
    zones = [f"Zone/{number:03}" for number in range(600)]
    told = describe_nearest("Nowhere", ["Nauru/X", *zones])
    assert told.startswith("nearest of the 601 that are known here: Nauru/X, ")
    assert told.count(",") == 4
