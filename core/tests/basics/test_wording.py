import pytest

from starforge.errors import StarForgeError
from starforge.wording import count_of, describe_nearest, join_sentences


@pytest.mark.parametrize(("count", "text"), [(0, "0 files"), (1, "1 file"), (2, "2 files")])
def test_a_noun_follows_its_count(count: int, text: str) -> None:
    assert count_of(count, "file") == text


def test_sentences_are_joined_by_the_sign_that_they_lack() -> None:
    assert join_sentences("one", "", "two.", "three?", "four") == "one. two. three? four"


def test_an_error_reads_as_its_three_parts() -> None:
    assert str(StarForgeError("no profile x", why="it is new", next_step="did you mean y?")) == (
        "no profile x. it is new. did you mean y?"
    )


def test_the_nearest_name_is_suggested_and_otherwise_all_are_listed() -> None:
    assert describe_nearest("costum", ["custom", "trl"]) == "did you mean 'custom'?"
    assert describe_nearest("zzz", ["trl", "custom"]) == "known here: custom, trl"
    assert describe_nearest("zzz", []) == ""
