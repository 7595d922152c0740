from collections.abc import Sequence

import pytest

from starforge.said.sentence import code_of
from starforge.wording import describe_nearest
from starforge_console.domain.nearest import say_nearest


@pytest.mark.parametrize(
    ("word", "known", "code"),
    [
        ("h20", ["h200", "a100"], "nearest.meant"),
        ("zzz", ["h200", "a100"], "nearest.known"),
        ("zzz", [f"name-{number}" for number in range(400)], "nearest.some"),
    ],
)
def test_what_may_be_meant_is_the_text_of_elsewhere_and_has_a_code(word: str, known: Sequence[str], code: str) -> None:
    said = say_nearest(word, known)
    assert said == describe_nearest(word, known)
    assert code_of(said) == code


def test_where_nothing_is_known_nothing_is_said() -> None:
    assert say_nearest("h20", []) == ""
