import pytest
from hypothesis import given
from hypothesis import strategies as st

from starforge.errors import InputError
from starforge.logtext.records import SHOWN_BYTES
from starforge.logtext.render import Span
from starforge_console.web.log_windows import Missing
from starforge_console.web.pages.log_lines import (
    LINE_BYTES,
    LogLine,
    Place,
    parse_place,
    show_items,
    split_log,
)


def texts(content: bytes) -> list[str]:
    return [line.text for line in split_log(content, Place(0), ended=True).lines]


def test_lines_stand_as_they_were_written() -> None:
    assert texts(b"one\n\n  two\tthree\n") == ["one", "", "  two\tthree"]


def test_of_a_progress_bar_the_last_state_is_left() -> None:
    assert texts(b"10%\r55%\r99%\r\nnext\r\n") == ["99%", "next"]


def test_a_line_without_an_end_is_the_tail_and_is_read_again() -> None:
    piece = split_log(b"done\nhalf", Place(100))
    assert piece.lines == (LogLine(1, (Span("done"),)),)
    assert (piece.tail, piece.place) == (LogLine(2, (Span("half"),)), Place(105, 2))


def test_the_last_line_of_a_log_that_ended_is_whole() -> None:
    piece = split_log(b"done\nhalf", Place(0), ended=True)
    assert ([line.text for line in piece.lines], piece.tail) == (["done", "half"], None)


def test_an_endless_line_is_cut_once_and_the_rest_of_it_passed_over() -> None:
    first = split_log(b"x" * (LINE_BYTES + 1), Place(0))
    assert [line.spans[1].omitted_bytes for line in first.lines] == [LINE_BYTES + 1 - SHOWN_BYTES]
    second = split_log(b"x" * 1000, first.place)
    assert (second.lines, second.tail) == ((), None)
    third = split_log(b"xx\nafter\n", second.place)
    assert [(line.number, line.text) for line in third.lines] == [(2, "after")]


def test_an_endless_progress_bar_stays_the_tail_and_is_not_read_from_its_beginning() -> None:
    content = b"\r99% of it" * 10_000
    piece = split_log(content, Place(0))
    assert piece.tail is not None
    assert (piece.lines, piece.tail.text, piece.place) == ((), "99% of it", Place(len(content) - 10, 1))
    later = split_log(content[piece.place.offset :] + b"\rdone\nnext\n", piece.place)
    assert [(line.number, line.text) for line in later.lines] == [(1, "done"), (2, "next")]


def test_a_missing_range_is_a_line_without_a_number() -> None:
    (line,) = show_items([Missing(3, 9)])
    assert (line.number, line.level, line.missing) == (None, "gap", Missing(3, 9))


@given(st.binary(max_size=400).map(lambda raw: raw.replace(b"x", b"\n")), st.integers(0, 400))
def test_wherever_a_log_is_cut_in_two_the_lines_are_the_same(content: bytes, cut: int) -> None:
    first = split_log(content[:cut], Place(0))
    second = split_log(content[first.place.offset :], first.place, ended=True)
    assert (*first.lines, *second.lines) == split_log(content, Place(0), ended=True).lines


@pytest.mark.parametrize("place", [Place(0), Place(7, 3), Place(123, 9, skipping=True)])
def test_a_place_is_read_back_from_its_text(place: Place) -> None:
    assert parse_place(str(place)) == place


def test_what_is_no_place_is_refused() -> None:
    with pytest.raises(InputError):
        parse_place("-1")
