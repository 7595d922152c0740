"""The bench's lines say what was measured, and two things are measured by turns."""

import pytest

from bench.__main__ import BENCHES, main
from bench.figures import Orientation, Pairs, Ratio, Skipped, compare


@pytest.mark.parametrize(
    ("value", "at_least", "verdict"),
    [(1.3, False, "ok"), (1.31, False, "short"), (1.3, True, "ok"), (1.29, True, "short")],
)
def test_a_ratio_is_held_to_its_target(value: float, *, at_least: bool, verdict: str) -> None:
    sign = ">=" if at_least else "<="
    assert Ratio("x", value, 1.3, at_least=at_least).render() == f"x {value:.2f} {sign}1.3 {verdict}"


def test_an_absolute_figure_never_decides() -> None:
    figure = Orientation("start", 99.0, "s", aim="<=1.5")
    assert not figure.decides
    assert figure.render() == "start 99 s orientation  (aim <=1.5)"


def test_what_cannot_be_compared_says_why() -> None:
    assert Skipped("x", "ray is not installed").render() == "x skipped: ray is not installed"


def test_two_things_are_measured_by_turns_after_one_round_that_does_not_count() -> None:
    calls: list[str] = []

    def measure(name: str, cost: float) -> float:
        calls.append(name)
        return cost

    pairs = compare(lambda: measure("a", 2.0), lambda: measure("b", 1.0), 3)
    assert calls == ["a", "b", "a", "b", "b", "a", "a", "b"]
    assert pairs == Pairs((2.0,) * 3, (1.0,) * 3)


def test_a_round_in_which_the_machine_was_slow_does_not_decide() -> None:
    assert Pairs((2.0, 40.0, 2.0), (1.0, 20.0, 1.0)).ratio == 2.0
    assert Pairs((2.0, 2.0, 90.0), (1.0, 1.0, 1.0)).ratio == 2.0


def test_a_bench_that_does_not_exist_is_refused_with_the_names_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cli_hlep"]) == 2
    said = capsys.readouterr().err
    assert "cli_hlep" in said
    assert all(name in said for name in BENCHES)
