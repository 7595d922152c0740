"""A search over a log sees what its lines show, with numbers and offsets, however the work is divided."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.tests.web.support import Logs
from starforge.logtext.reading import LineReader
from starforge_console.web.log_search import SEARCHED_BYTES, Found, Hit, Wanted, search_log

ATTEMPT = "j-1-abc"


def logs_of(content: bytes, *, ended: bool = True) -> Logs:
    return Logs(written={ATTEMPT: content}, ended={ATTEMPT} if ended else set())


def search(logs: Logs, wanted: Wanted, begin: int = 0, most: int = 200) -> Found:
    return asyncio.run(search_log(logs, ATTEMPT, wanted, begin, most))


def numbers(content: bytes, wanted: Wanted) -> list[int]:
    return [hit.number for hit in search(logs_of(content), wanted).hits]


def search_all(content: bytes, wanted: Wanted, most: int) -> list[Hit]:
    logs, at = logs_of(content), 0
    hits: list[Hit] = []
    while True:
        found = search(logs, wanted, at, most)
        hits += found.hits
        if found.next_offset is None:
            return hits
        assert found.next_offset > at
        at = found.next_offset


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"one\nTwo\nthree\n", "two"),
        (b"one\n\x1b[31mt\x1b[0mwo\n", "two"),
        (b"one\n10%\rtwo\n", "two"),
        (b"one\r\nTWO\r\nthree", "two"),
        ("one\n损失 0.4\n".encode(), "损失"),
        (b"one\n" + "显存不足".encode("gbk") + b"\n", "存不"),
        ("one\nÉTÉ\n".encode(), "été"),
        (b"one\nt\bt\x00wo two\n", "two"),
        (b"one\n" + b"x" * 30_000 + b" two " + b"y" * 30_000 + b"\n", " two "),
    ],
)
def test_a_text_is_found_as_it_is_shown_in_any_case(content: bytes, text: str) -> None:
    (hit,) = search(logs_of(content), Wanted(text=text)).hits
    assert hit.number == 2
    assert hit.offset == content.index(b"\n") + 1
    assert hit.text[hit.begin : hit.end].lower() == text
    assert len(hit.text) < 1000


def test_what_a_progress_bar_no_longer_shows_is_not_found() -> None:
    assert numbers(b"1% needle\r2%\nneedle\n", Wanted(text="needle")) == [2]


@given(
    st.lists(st.sampled_from([b"needle", b"\n", b"\r", b"\x1b[1m", b"x", b"\xe4\xb8\xad", b"\xff", b"NEED", b"le"])),
    st.integers(1, 3),
)
def test_a_search_finds_just_the_lines_that_show_the_text(pieces: list[bytes], most: int) -> None:
    content = b"".join(pieces)
    reader = LineReader()
    lines = [*reader.feed(content), *([last] if (last := reader.finish()) is not None else [])]
    expected = [(line.number, line.offset) for line in lines if "needle" in line.text.lower()]
    hits = search_all(content, Wanted(text="needle"), most)
    assert [(hit.number, hit.offset) for hit in hits] == expected


def test_a_long_log_is_searched_in_steps_of_bounded_work() -> None:
    line = b"step 12345 loss 0.123456 lr 1.0e-05 tokens/s 34567.8\n"
    content = line * (SEARCHED_BYTES * 5 // 2 // len(line)) + b"the needle\n"
    logs, begin, steps = logs_of(content), 0, 0
    while True:
        found = search(logs, Wanted(text="needle"), begin)
        steps += 1
        assert found.searched_to - begin <= SEARCHED_BYTES + (2 << 20)
        if found.next_offset is None:
            break
        begin = found.next_offset
    assert steps == 3
    assert [hit.number for hit in found.hits] == [content.count(b"\n")]


def test_the_end_of_a_live_log_is_searched_again_with_what_comes() -> None:
    logs = logs_of(b"one\nneed", ended=False)
    first = search(logs, Wanted(text="needle"))
    assert (first.hits, first.next_offset, first.searched_to) == ((), None, 4)
    logs.written[ATTEMPT] += b"le\n"
    assert [hit.number for hit in search(logs, Wanted(text="needle"), first.searched_to).hits] == [2]


def test_a_search_goes_on_behind_what_is_missing() -> None:
    content = b"needle 1\n" + b"needle lost\n" * 1000 + b"needle 2\n"
    logs = logs_of(content)
    logs.lost[ATTEMPT] = (9, len(content) - 9)
    assert [(hit.number, hit.text) for hit in search(logs, Wanted(text="needle")).hits] == [
        (1, "needle 1"),
        (1002, "needle 2"),
    ]


def test_what_one_rank_wrote_is_found_and_shown_alone() -> None:
    content = b"[rank1]: a\n[rank0]: b[rank1]: c\n1: labelled\nstep 1: no label\n[rank11]: d\n"
    hits = search(logs_of(content), Wanted(rank=1)).hits
    assert [(hit.number, hit.text) for hit in hits] == [(1, "[rank1]: a"), (2, "[rank1]: c"), (3, "1: labelled")]
    assert numbers(content, Wanted(rank=1, text="c")) == [2]


def test_lines_that_speak_of_errors_are_found() -> None:
    content = b"no error yet\n\x1b[33mUserWarning\x1b[0m\nTraceback (most recent call last):\nKeyError: 'a'\n"
    assert numbers(content, Wanted(errors=True)) == [1, 3, 4]


@pytest.mark.parametrize("text", ["\n", "\ntwo", "one\n", "one\ntwo", "\n\n"])
@pytest.mark.parametrize("content", [b"one\ntwo\n\n", b"one\r\n\x1b[1mtwo\x1b[0m\n\n"])
def test_a_text_that_goes_over_a_lines_end_is_in_no_line_and_the_search_ends(content: bytes, text: str) -> None:
    found = search(logs_of(content), Wanted(text=text))
    assert (found.hits, found.next_offset) == ((), None)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (b"[e]\n", Wanted(errors=True)),
        (b"\x07\n", Wanted(text="two")),
        ("\u00e9\n".encode(), Wanted(text="\u00f6")),
        (b"e\n", Wanted(text="e", errors=True)),
    ],
)
def test_short_lines_that_must_be_looked_at_one_by_one_end_an_answer_soon(line: bytes, wanted: Wanted) -> None:
    content = line * ((2 << 20) // len(line))
    found = search(logs_of(content), wanted)
    assert found.hits == ()
    assert found.next_offset is not None
    assert found.searched_to < len(content) // 2
    later = search(logs_of(content), wanted, found.next_offset)
    assert later.searched_from == found.searched_to < later.searched_to


def test_a_search_that_stops_early_again_and_again_finds_every_line_once() -> None:
    content = b"[e]\n" * 300_000 + b"an error here\n" + b"[e]\n" * 300_000 + b"KeyError: 'x'\n"
    hits = search_all(content, Wanted(errors=True), 200)
    assert [hit.number for hit in hits] == [300_001, 600_002]
    assert [content[hit.offset :].split(b"\n")[0] for hit in hits] == [b"an error here", b"KeyError: 'x'"]
