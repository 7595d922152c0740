import pytest
from hypothesis import given
from hypothesis import strategies as st

from starforge.errors import InputError
from starforge_console.web.pages.log_lines import (
    LINE_BYTES,
    SHOWN_CHARACTERS,
    LogLine,
    Place,
    build_line,
    parse_place,
    split_log,
)


def texts(content: bytes) -> list[str]:
    return [line.text for line in split_log(content, Place(0), ended=True).lines]


def test_lines_stand_as_they_were_written() -> None:
    assert texts(b"one\n\n  two\tthree\n") == ["one", "", "  two\tthree"]


def test_of_a_progress_bar_the_last_state_is_left() -> None:
    assert texts(b"10%\r55%\r99%\r\nnext\r\n") == ["99%", "next"]


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"\x1b[31mred\x1b[0m", "red"),
        (b"\x1b]0;title\x07text", "text"),
        (b"\x1b[2Jcleared", "cleared"),
        (b"nul\x00", "nul\u2400"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        ("\u202eevil".encode(), "\ufffdevil"),
    ],
)
def test_what_would_act_on_a_reader_is_gone_or_visible(raw: bytes, text: str) -> None:
    assert build_line(raw).text == text


def test_a_line_without_an_end_is_the_tail_and_is_read_again() -> None:
    piece = split_log(b"done\nhalf", Place(100))
    assert (piece.lines, piece.tail, piece.place) == ((LogLine("done"),), LogLine("half"), Place(105))


def test_the_last_line_of_a_log_that_ended_is_whole() -> None:
    piece = split_log(b"done\nhalf", Place(0), ended=True)
    assert ([line.text for line in piece.lines], piece.tail) == (["done", "half"], None)


def test_an_endless_line_is_cut_once_and_the_rest_of_it_passed_over() -> None:
    first = split_log(b"x" * (LINE_BYTES + 1), Place(0))
    assert [line.was_cut for line in first.lines] == [True]
    assert len(first.lines[0].text) == SHOWN_CHARACTERS
    second = split_log(b"x" * 1000, first.place)
    assert (second.lines, second.tail) == ((), None)
    third = split_log(b"xx\nafter\n", second.place)
    assert [line.text for line in third.lines] == ["after"]


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("Traceback (most recent call last):", "err"),
        ("torch.OutOfMemoryError: CUDA out of memory", "err"),
        ("UserWarning: slow", "warn"),
        ("no errors were found in errorless.py", ""),
        ("[starforge: bytes 0 to 5 of this log are lost]", "gap"),
        ("step 1", ""),
    ],
)
def test_lines_that_speak_of_errors_and_warnings_are_told_apart(text: str, level: str) -> None:
    assert build_line(text.encode()).level == level


@given(st.binary(max_size=400).map(lambda raw: raw.replace(b"x", b"\n")), st.integers(0, 400))
def test_wherever_a_log_is_cut_in_two_the_lines_are_the_same(content: bytes, cut: int) -> None:
    first = split_log(content[:cut], Place(0))
    second = split_log(content[first.place.offset :], first.place, ended=True)
    assert (*first.lines, *second.lines) == split_log(content, Place(0), ended=True).lines


@pytest.mark.parametrize("place", [Place(0), Place(7), Place(123, skipping=True)])
def test_a_place_is_read_back_from_its_text(place: Place) -> None:
    assert parse_place(str(place)) == place


def test_what_is_no_place_is_refused() -> None:
    with pytest.raises(InputError):
        parse_place("-1")
