import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.tests.logtext import streams
from starforge.logtext.reading import LineReader, LogText
from starforge.logtext.records import SHOWN_BYTES
from starforge.logtext.render import Line

CASES = Path(__file__).parents[4] / "shared" / "cases"
CHUNKS = (1, 7, 4096)
PIECES = st.sampled_from(
    [b"\x1b", b"[", b"]", b"31", b"2K", b"m", b"\x07", b"\\", b"a", b"\xe4\xb8\xad", b"\xd6\xd0", b"\r\n", b"\r", b"\n"]
)


def cut(content: bytes, size: int) -> Iterator[bytes]:
    return (content[at : at + size] for at in range(0, len(content), size))


def read(content: bytes, size: int, rank: int | None = None) -> list[Line]:
    reader = LineReader(rank=rank)
    lines = [line for piece in cut(content, size) for line in reader.feed(piece)]
    last = reader.finish()
    return lines if last is None else [*lines, last]


def texts(content: bytes, rank: int | None = None) -> list[str]:
    return [line.text for line in read(content, 4096, rank)]


def show(content: bytes, size: int, *, colour: bool = False) -> str:
    text = LogText(colour=colour)
    return "".join(text.feed(piece) for piece in cut(content, size)) + text.finish()


@pytest.mark.parametrize("name", streams.ALL)
def test_however_a_stream_is_cut_its_lines_are_the_same(name: str) -> None:
    content = streams.ALL[name]
    whole = read(content, len(content))
    for size in CHUNKS:
        assert read(content, size) == whole
        assert show(content, size, colour=True) == show(content, len(content), colour=True)


@given(st.lists(PIECES | st.binary(max_size=3)), st.integers(1, 9))
def test_however_any_bytes_are_cut_their_lines_are_the_same(pieces: list[bytes], size: int) -> None:
    content = b"".join(pieces)
    assert read(content, size) == read(content, max(1, len(content)))
    assert show(content, size, colour=True) == show(content, max(1, len(content)), colour=True)


@given(st.binary(max_size=300))
def test_text_and_lines_say_the_same_and_nothing_in_them_acts(content: bytes) -> None:
    shown = show(content, 50)
    assert shown.split("\n") == [*(line.text for line in read(content, 50)), ""]
    assert shown.splitlines() == shown.split("\n")[:-1]
    assert not [sign for sign in shown if ord(sign) < 0x20 and sign not in "\n\t"]
    assert "\x7f" not in shown


@given(st.binary(max_size=300))
def test_numbers_and_offsets_are_those_of_line_feeds(content: bytes) -> None:
    for line in read(content, 11):
        assert content[: line.offset].count(b"\n") == line.number - 1
        assert line.offset == 0 or content[line.offset - 1 : line.offset] == b"\n"


def test_a_very_long_line_is_cut_with_a_marker_and_the_next_one_is_whole() -> None:
    long, after = read(streams.LONG_LINE, 4096)
    assert long.omitted_bytes == len(streams.LONG_LINE.split(b"\n")[0]) - SHOWN_BYTES
    assert f"{long.omitted_bytes} bytes of this line are left out" in long.text
    assert "--raw" in long.text
    assert long.text.startswith("overrides: ['k=xxx")
    assert long.text.endswith("xxx']")
    assert len(long.text) < SHOWN_BYTES + 200
    assert after.text == "Traceback (most recent call last):"


def test_a_line_that_is_cut_inside_a_character_loses_no_more_than_that() -> None:
    for text in ("训练" * 20_000, "é" * 30_000):
        for shift in range(3):
            assert "\ufffd" not in texts(b"a" * shift + text.encode())[0]
    assert "\ufffd" not in texts(("训练" * 20_000).encode("gb18030"))[0]


def test_every_line_is_decoded_by_itself() -> None:
    assert texts(streams.GBK) == ["训练开始", "警告 显存不足 已切换", "损失 0.42 ✅"]


def test_a_damaged_line_of_utf_8_is_not_taken_for_another_encoding() -> None:
    assert texts("训练开始".encode()[:-1]) == ["训练开\ufffd"]


def test_what_is_no_text_is_replaced_and_the_lines_around_it_stay() -> None:
    lines = texts(streams.INVALID)
    assert (lines[0], lines[-1], len(lines)) == ("loss=0.5", "loss=0.4", 5)
    assert lines[1] == "\ufffd\ufffd\ufffd garbage \ufffd( \ufffd end"


def test_nul_bytes_are_signs_and_a_run_of_them_is_counted() -> None:
    assert texts(streams.NULS) == ["step 1", "\u2400\u00d74096", "step 2", "model=Orin\u2400 end"]


def test_a_line_ends_with_a_line_feed_and_with_nothing_else() -> None:
    assert texts(streams.SEPARATORS) == ["a\ufffdb\ufffdc\ufffdd\u240be\u240cf\u241cg", "second", "fourth"]


def test_of_a_progress_bar_the_last_state_is_left() -> None:
    assert texts(streams.PROGRESS) == ["100%|##########|", "done"]
    assert texts(b"10%\r55%\r99%\r\r\n\r\n") == ["99%", ""]


def test_a_progress_bar_in_work_is_seen_as_it_stands() -> None:
    reader, seen = LineReader(), []
    for piece in (b"\r1", b"0%", b"\r", b"20%", b"\r30%\n"):
        seen += [line.text for line in reader.feed(piece)]
        tail = reader.peek()
        seen.append("" if tail is None else f"({tail.text})")
    assert seen == ["(1)", "(10%)", "(10%)", "(20%)", "30%", ""]


def test_a_progress_bar_of_any_length_takes_no_more_memory_than_its_last_state() -> None:
    reader = LineReader()
    for _ in range(64):
        assert not list(reader.feed(b"\r99% of the work is done" * 10_000))
    last = reader.finish()
    assert last is not None
    assert (last.text, last.omitted_bytes) == ("99% of the work is done", 0)


def test_what_a_rank_wrote_is_told_apart_even_within_a_line() -> None:
    assert texts(streams.RANKS, rank=3) == [
        "3: [rank3]: Traceback (most recent call last):",
        "3: [rank3]: ValueError: bad sample 77",
    ]
    assert texts(streams.RANKS, rank=5) == [
        "[rank5]: Traceback (most recent call last):",
        '[rank5]:   File "a.py", line 9',
    ]
    assert texts(streams.RANKS, rank=7) == ["7: [rank7]: Trace", '[rank7]:   File "a.py", line 9']
    assert [line.number for line in read(streams.RANKS, 7, rank=7)] == [3, 6]
    assert texts(streams.RANKS, rank=9) == []


def test_of_a_burst_every_line_and_the_last_one_are_there() -> None:
    lines = texts(streams.BURST)
    assert (len(lines), lines[-1]) == (6001, "CUDA error")


def test_colours_stay_where_they_are_wanted_and_end_with_their_line() -> None:
    assert show(streams.COLOURED, 7, colour=True) == ("\x1b[1;31mred\x1b[0m plain kept \x1b[32mgreen\x1b[0m\nnext\n")
    assert show(streams.COLOURED, 7) == "red plain kept green\nnext\n"


@pytest.mark.skipif(not CASES.is_dir(), reason="the collected streams are not beside this project")
def test_the_collected_streams_are_shown_as_is_expected_of_them() -> None:
    known = [json.loads(line) for line in (CASES / "cases.jsonl").read_text().splitlines()]
    kept = {case["id"]: (CASES / case["file"]).read_bytes() for case in known if case["kind"] == "C"}
    shown = {name: texts(content) for name, content in kept.items()}
    for name, content in kept.items():
        assert all(read(content, size) == read(content, len(content)) for size in CHUNKS), name
    assert "bytes of this line are left out" in shown["C06"][0]
    assert shown["C06"][1:] == ["Traceback (most recent call last):"]
    assert shown["C08"][::3] == ["训练开始 epoch 1", "损失 0.42 ✅"]
    assert "显存不足" in shown["C08"][1]
    assert (shown["C10"][0], shown["C10"][-1]) == ("loss=0.5", "loss=0.4")
    assert [line for line in shown["C11"] if line.startswith("step")] == ["step 1 loss 2.1", "step 2 loss 2.0"]
    assert texts(kept["C12"], rank=3)[-1].endswith("ValueError: bad sample 77")
    assert (len(shown["C15"]), len(shown["C16"]), shown["C17"][1:]) == (4, 4, ["second", "fourth"])
    assert shown["C19"][-1].startswith("RuntimeError: CUDA error")
