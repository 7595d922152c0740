import io
import math
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from starforge.cli.follow import TextLog
from starforge.cli.output import render_error, render_row, render_table
from starforge.cli.plot import draw_curve
from starforge.errors import ProjectError
from starforge.logtext import LogText, clean, clean_line


def show(*pieces: bytes, colour: bool = False) -> str:
    text = LogText(colour=colour)
    return "".join(map(text.feed, pieces)) + text.finish()


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"plain\ttext\n", "plain\ttext\n"),
        (b"10%\r20%\r\n", "10%\r20%\r\n"),
        (b"a\x1b[2J\x1b[Hb", "ab"),
        (b"\x1b]0;title\x07x\x1b]8;;http://e\x1b\\y", "xy"),
        (b"\x1b]52;c;ZXZpbA==\x07x", "x"),
        (b"\x1bPq#0\x1b\\x\x1bcy\x1b(Bz", "xyz"),
        (b"\x00\x07\x08\x7f", "\u2400\u2407\u2408\u2421"),
        (b"\xff\xfea", "\ufffd\ufffda"),
        ("\u202egnp.exe\u2066".encode(), "\ufffdgnp.exe\ufffd"),
        (b"\xc2\x9b2J", "\ufffd2J"),
        ("训练 é 😀".encode(), "训练 é 😀"),
        (b"lonely \x1b", "lonely \u241b"),
        (b"\x1b]0;never ends", "\u241b]0;never ends"),
    ],
)
def test_a_log_becomes_text_that_cannot_move_the_cursor(raw: bytes, expected: str) -> None:
    assert show(raw) == expected


def test_colours_stay_where_they_are_wanted_and_end_with_the_log() -> None:
    assert show(b"\x1b[1;31mred", colour=True) == "\x1b[1;31mred\x1b[0m"
    assert show(b"\x1b[1;31mred\x1b[5A", colour=False) == "red"


@given(st.lists(st.sampled_from([b"\x1b", b"[", b"]", b"31", b"m", b"\x07", b"\\", b"a", b"\xe4\xb8\xad", b"\r\n"])))
def test_where_the_pieces_are_cut_changes_nothing(pieces: list[bytes]) -> None:
    whole = b"".join(pieces)
    single = [whole[i : i + 1] for i in range(len(whole))]
    assert show(*single, colour=True) == show(whole, colour=True)


@given(st.binary(max_size=300))
def test_no_control_character_but_line_ends_and_tabs_ever_comes_through(content: bytes) -> None:
    shown = show(content)
    assert not [sign for sign in shown if ord(sign) < 0x20 and sign not in "\n\r\t"]
    assert "\x7f" not in shown


def test_an_event_in_the_middle_of_a_line_gets_one_of_its_own_on_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for stream, expected in ((Terminal(), "half\nline\n"), (io.StringIO(), "halfline\n")):
        monkeypatch.setattr(sys, "stdout", stream)
        log = TextLog()
        log.write(b"half")
        log.break_line()
        log.break_line()
        log.write(b"line\n")
        log.break_line()
        log.finish()
        assert stream.getvalue() == expected


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
