import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from starforge.cli.output import render_error, render_row, render_table, render_text
from starforge.cli.plot import draw_curve
from starforge.errors import ProjectError
from starforge.logtext import clean, clean_line


def test_a_curve_fits_its_width_and_names_its_ends() -> None:
    steps = list(range(1, 201))
    lines = draw_curve(steps, [math.exp(-step / 50) for step in steps], title="loss", width=60, height=6).splitlines()
    assert max(map(len, lines)) <= 60
    assert len(lines) == 8
    assert "loss" in lines[0]
    assert "step 200" in lines[0]
    assert lines[-1].split() == ["1", "200"]


def test_a_falling_curve_falls_from_left_to_right() -> None:
    lines = draw_curve([0, 1], [1.0, 0.0], title="x", width=30, height=4).splitlines()[1:5]
    first = [next(i for i, sign in enumerate(line.partition("┤")[2]) if sign > "\u2800") for line in lines]
    assert first == sorted(first)
    assert first[0] == 0


@pytest.mark.parametrize("values", [[], [math.nan], [math.inf, -math.inf]], ids=str)
def test_a_curve_without_a_finite_value_says_so(values: list[float]) -> None:
    assert "no finite value" in draw_curve(range(len(values)), values, title="loss", width=60)


@pytest.mark.parametrize("last", [math.nan, math.inf], ids=str)
def test_a_curve_that_ends_without_a_number_names_that_end_also_on_a_narrow_terminal(last: float) -> None:
    values = [2.0, 1.0, last, last]
    title = draw_curve([1, 2, 3, 4], values, title="train/loss (4 points)", width=80).splitlines()[0]
    assert title == f"train/loss (4 points)  last {last} at step 4; nan and inf are not drawn"


@given(
    st.lists(st.floats(width=64), min_size=1, max_size=50),
    st.integers(min_value=1, max_value=200),
    st.integers(min_value=1, max_value=20),
)
def test_any_curve_can_be_drawn(values: list[float], width: int, height: int) -> None:
    text = draw_curve(range(len(values)), values, title="loss", width=width, height=height)
    assert all(len(line) <= max(width, 24) for line in text.splitlines())


def test_a_table_fits_the_terminal_and_is_never_cut_in_a_pipe() -> None:
    rows = [("j1", "x" * 50), ("j22", "y")]
    assert max(map(len, render_table(("JOB", "NOTE"), rows, 30).splitlines())) == 30
    assert "x" * 50 in render_table(("JOB", "NOTE"), rows, None)


def test_a_row_that_does_not_fit_goes_on_below_its_text_with_every_word_whole() -> None:
    assert render_row("  note  ", "one two-three\nfour", 18) == "  note  one\n        two-three\n        four"
    assert render_row("  note  ", "one two-three\nfour", None) == "  note  one two-three four"
    assert render_row("  note  ", "x" * 30, 20) == "  note  " + "x" * 30
    assert render_row("  note  ", "", 20) == "  note"


def test_a_text_of_several_lines_keeps_them_below_one_another() -> None:
    text = "def f(x):\n    return x\n\nend\x1b[2J\n"
    assert render_text("  code  ", text) == "  code  def f(x):\n            return x\n\n        end␛[2J"
    assert render_text("  code  ", "") == "  code"
    assert render_text("  code  ", "a\r\nb") == "  code  a\n        b"


def test_an_error_is_three_lines_of_what_why_and_next() -> None:
    error = ProjectError("it broke", why="a\nb", next_step="mend it")
    assert render_error(error, colour=False) == "error:  it broke\nwhy:    a\n        b\nnext:   mend it"
    assert "\x1b[" in render_error(error, colour=True)


HOSTILE = "\x1b]0;owned\x07\x1b[2K\r\u202egpj\u2028\ud800"
SHOWN = "\u241b]0;owned\u2407\u241b[2K\u240d\ufffdgpj\ufffd\ufffd"


def test_a_text_of_somebody_else_keeps_its_lines_and_does_nothing_to_a_terminal() -> None:
    assert clean(f"one\n\ttwo {HOSTILE}") == f"one\n\ttwo {SHOWN}"
    assert clean_line("a\nb\tc\r\n") == "a\u240ab\u2409c\u240d\u240a"


def test_every_part_of_a_table_a_row_and_an_error_is_safe_to_show() -> None:
    assert render_table(("PATH",), [(f"a\n{HOSTILE}",)], None).splitlines()[1:] == [f"a\u240a{SHOWN}"]
    assert render_row("note ", f"a {HOSTILE}b", None) == "note a \u241b]0;owned\u2407\u241b[2K \ufffdgpj \ufffdb"
    error = ProjectError(f"what {HOSTILE}", why=f"why {HOSTILE}", next_step=f"next {HOSTILE}")
    lines = render_error(error, colour=False).splitlines()
    assert lines == [f"error:  what {SHOWN}", f"why:    why {SHOWN}", f"next:   next {SHOWN}"]
