import pytest

from starforge.contract.canonical import Json
from starforge.recipes.rules import check_expression, find_truth, list_names


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("batch * processes % group == 0", True),
        ("batch * processes % 7 == 0", False),
        ("0 < rate <= 1", True),
        ("mode in ('colocate', 'server')", True),
        ("not packing or a.b.size > 0", True),
        ("given(a.b.size) and not given(missing)", True),
        ("-1 == limit", True),
    ],
)
def test_an_expression_is_answered_from_the_values(text: str, *, answer: bool) -> None:
    numbers = {"batch": 4, "processes": 2, "group": 8, "rate": 0.5, "a.b.size": 3, "limit": -1}
    values: dict[str, Json] = {**numbers, "mode": "server", "packing": True}
    check_expression(text)
    assert find_truth(text, values) is answer


@pytest.mark.parametrize("text", ["gpus > 1", "batch % zero == 0", "name > 3", "rate < 1"])
def test_what_is_not_known_has_no_answer(text: str) -> None:
    values = {"gpus": None, "batch": 1, "zero": 0, "name": "x", "rate": float("nan")}
    assert find_truth(text, values) is None


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "open('x')",
        "given(1)",
        "given(x, y)",
        "x[0]",
        "lambda: 1",
        "x if y else z",
        "a **",
        "a" * 600,
        "x ** 9",
    ],
)
def test_anything_else_is_no_expression(text: str) -> None:
    with pytest.raises(ValueError, match=r"expression|rules do not know"):
        check_expression(text)


def test_the_names_of_an_expression_are_listed_for_its_message() -> None:
    assert list_names("given(x.y) and b * c == 2") == ["x.y", "b", "c"]


def test_numbers_too_large_to_divide_leave_a_rule_without_answer() -> None:
    assert find_truth("a / b > 1", {"a": 10**2000, "b": 3}) is None
    assert find_truth("a * 0.5 > 1", {"a": 10**2000}) is None
