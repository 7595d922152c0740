import time

import pytest

from core.tests.logtext import streams
from starforge.logtext.decoding import decode
from starforge.logtext.levels import find_level, is_surely_error, split_ranks, strip_prefixes
from starforge.logtext.records import build_record
from starforge.logtext.render import Span, render_bytes, render_record
from starforge.logtext.styles import STYLES, change_style


def text_of(raw: bytes) -> str:
    return "".join(span.text for span in render_bytes(raw))


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"plain\ttext", "plain\ttext"),
        (b"a\x1b[2J\x1b[Hb", "ab"),
        (b"\x1b]0;title\x07x\x1b]8;;http://e\x1b\\y", "xy"),
        (b"\x1bPq#0\x1b\\x\x1bcy\x1b(Bz", "xyz"),
        (b"\x00\x07\x7f", "\u2400\u2407\u2421"),
        (b"\xff\xfea", "\ufffd\ufffda"),
        ("\u202egnp.exe\u2066".encode(), "\ufffdgnp.exe\ufffd"),
        (b"\xc2\x9b2J", "\ufffd2J"),
        ("训练 é 😀".encode(), "训练 é 😀"),
        (b"lonely \x1b", "lonely \u241b"),
        (b"\x1b]0;never ends", "\u241b]0;never ends"),
        (b"half\x1b[2Kwhole", "whole"),
        (b"half\x1b[1Gwhole", "whole"),
        (b"half\x1b[G", "half"),
        (b"-\b\\\b|\bdone", "done"),
        (b"\b\ba", "\u2408\u2408a"),
    ],
)
def test_a_line_becomes_text_that_moves_nothing(raw: bytes, expected: str) -> None:
    assert text_of(raw) == expected


@pytest.mark.parametrize(
    ("before", "parameters", "after"),
    [
        ((), "1;31", ("bold", "red")),
        (("bold", "red"), "", ()),
        (("bold", "red"), "39", ("bold",)),
        (("bold", "dim", "italic"), "22", ("italic",)),
        (("red",), "92", ("bright-green",)),
        ((), "38;5;1", ("red",)),
        ((), "38;5;240", ("bright-black",)),
        ((), "38;2;250;10;10;1", ("bold", "red")),
        ((), "48;5;1;4", ("underline",)),
        (("red",), "38", ("red",)),
        (("red",), "<35", ("red",)),
        ((), "99999999999;3", ("italic",)),
    ],
)
def test_a_colour_sequence_changes_the_style(before: tuple[str, ...], parameters: str, after: tuple[str, ...]) -> None:
    assert change_style(before, parameters) == after
    assert set(after) <= STYLES


def test_a_line_is_spans_of_one_style_each() -> None:
    spans = render_bytes(b"\x1b[31mre\x1b[31md\x1b[m \x1b[1mbold")
    assert spans == (Span("red", ("red",)), Span(" "), Span("bold", ("bold",)))


def test_what_is_left_out_of_a_line_has_a_span_of_its_own() -> None:
    line = render_record(build_record(b"a" * 10_000 + b"\r" + b"b" * 20_000, 3, 7))
    assert (line.number, line.offset, line.omitted_bytes) == (3, 7, 20_000 - (16 << 10))
    assert [bool(span.omitted_bytes) for span in line.spans] == [False, True, False]
    assert "a" * 100 not in line.text


def test_a_line_that_is_cut_in_a_sequence_shows_nothing_of_it() -> None:
    assert render_bytes(b"abc\x1b[3", cut_end=True) == (Span("abc"),)


def test_of_a_line_that_is_no_utf_8_the_other_encoding_must_fit_whole() -> None:
    assert decode("显存不足".encode("gbk")) == "显存不足"
    assert decode("显存不足".encode("gbk") + b"\xff") != "显存不足"
    assert decode(b"e\xe9 t\xe8 s") == "e\ufffd t\ufffd s"


@pytest.mark.parametrize("content", [streams.STAMPED, streams.NUMBERED, streams.RANKS])
def test_what_launchers_put_before_a_line_hides_no_error(content: bytes) -> None:
    assert is_surely_error(text_of(content.split(b"\n")[0]))


def test_the_prefixes_of_launchers_are_known() -> None:
    assert strip_prefixes("2025-07-03T14:20:51.565839352Z KeyError: 'a'") == "KeyError: 'a'"
    assert strip_prefixes("[1745]   1%|") == "  1%|"
    assert strip_prefixes("108751 10.48.119.83: values") == "values"
    assert strip_prefixes("3: [rank3]: ValueError") == "ValueError"
    assert strip_prefixes("(WorkerDict pid=71, ip=10.0.0.2) text") == "text"
    assert strip_prefixes("step 3: loss") == "step 3: loss"


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
    assert find_level(text) == level


@pytest.mark.parametrize("unit", ["_", "0", "é", "a.", "Warning"[:6], "Erro", "[rank1]: ", " "])
def test_the_level_of_a_hostile_line_is_told_in_a_time_that_grows_with_its_length_alone(unit: str) -> None:
    """No bound in seconds: eight times the signs may take about eight times as long, and far from 64 times."""

    def measure(size: int) -> float:
        line = unit * (size // len(unit))
        best = float("inf")
        for _ in range(5):
            begin = time.process_time()
            for _ in range(20):
                find_level(line)
            best = min(best, time.process_time() - begin)
        return best

    assert measure(4000) < 20 * measure(500) + 0.02


@pytest.mark.parametrize(
    ("text", "is_sure"),
    [
        ("Traceback (most recent call last):", True),
        ("KeyError: 'prompt'", True),
        ("[rank3]: ValueError: bad sample 77", True),
        ("RuntimeError: CUDA error: device-side assert triggered", True),
        ("train.sh: line 3: 71 Segmentation fault (core dumped)", True),
        ("UserWarning: this may raise a KeyError", False),
        ("eval error 0.12", False),
        ("retries on error: 3", False),
    ],
)
def test_where_an_error_begins_is_told_from_a_mention_of_one(text: str, is_sure: bool) -> None:  # noqa: FBT001 - a column of the table
    assert is_surely_error(text) is is_sure


def test_a_line_is_split_at_the_marks_of_ranks() -> None:
    assert list(split_ranks("nobody's")) == [(None, "nobody's")]
    assert list(split_ranks("0: labelled")) == [(0, "0: labelled")]
    assert list(split_ranks("x[rank1]: a[default2]:b")) == [(None, "x"), (1, "[rank1]: a"), (2, "[default2]:b")]
