"""Whatever the bytes are: no error, bounded memory of lines, and a time that grows with the length alone."""

import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.tests.diagnosis.builders import load_samples
from starforge.diagnosis.answer import Category, KnownExit
from starforge.diagnosis.diagnose import diagnose
from starforge.diagnosis.rules.book import RULES
from starforge.diagnosis.window import HEAD_BYTES, TAIL_BYTES, iterate_pieces, read_window

WORDS = [sample.encode() for samples, _ in load_samples().values() for sample in samples]
PIECES = st.one_of(
    st.binary(max_size=60),
    st.sampled_from(WORDS),
    st.sampled_from([b"\n", b"\r", b"\x1b[31m", b"Traceback (most recent call last):\n", b"[rank1]: ", b"3: ", b"%|"]),
)
OOM = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


@settings(max_examples=300, deadline=None)
@given(pieces=st.lists(PIECES, max_size=30), code=st.one_of(st.none(), st.integers(-2000, 2000)))
def test_no_bytes_make_it_raise(pieces: list[bytes], code: int | None) -> None:
    log = b"".join(pieces)
    found = diagnose(log, KnownExit(code=code))
    assert "\n" not in (found.spot.text if found.spot else "")
    if found.spot is not None:
        assert log[found.spot.offset - 1 : found.spot.offset] in {b"", b"\n"}
        assert log.count(b"\n", 0, found.spot.offset) + 1 == found.spot.number


@pytest.mark.parametrize("end", [b"", b"\n", b"last line", b"\xff\x00\r\n\nlast"])
def test_a_window_of_a_long_log_numbers_lines_as_the_log_has_them(end: bytes) -> None:
    log = b"".join(b"line %d of the log\n" % number for number in range(200_000)) + end
    window = read_window(iterate_pieces(log))
    assert window.gap is not None
    whole = log.split(b"\n")
    near_gap = window.lines[window.gap - 2 : window.gap + 2]
    for line in (*window.lines[:3], *near_gap, *window.lines[-3:]):
        assert whole[line.number - 1] == line.content
        assert log[line.offset : line.offset + len(line.content)] == line.content


def test_a_cause_is_found_at_the_end_of_a_long_log_with_its_number() -> None:
    log = b"a line of a long log\n" * 400_000 + OOM
    found = diagnose(log)
    assert (found.kind, found.spot.number if found.spot else 0) == ("cuda_oom", 400_001)


def test_a_cause_that_only_the_beginning_holds_is_not_believed() -> None:
    log = OOM + b"a line of a long log\n" * 400_000
    assert diagnose(log, KnownExit(code=1)).category is Category.UNKNOWN


def test_a_line_of_ten_megabytes_is_looked_at_from_both_ends() -> None:
    assert diagnose(b"x" * 10_000_000 + b"\n" + OOM).kind == "cuda_oom"
    assert diagnose(b"RuntimeError: " + b"x" * 10_000_000).category is Category.UNKNOWN
    assert sum(len(line.content) for line in read_window([b"y" * 10_000_000]).lines) < HEAD_BYTES + TAIL_BYTES


def _hostile_lines() -> dict[str, Callable[[int], bytes]]:
    needles = sorted({pattern.needle for rule in RULES for pattern in rule.patterns})
    every = " ".join(needles).encode()
    return {
        "dots": lambda size: b"a." * (size // 2),
        "all needles in lines": lambda size: (every[:4000] + b"\n") * (size // 4000),
        "loud": lambda size: (
            (b"[2025-08-13 06:19:49] [ERROR] [x] " + b"aError: " * 300 + every + b"\n") * (size // (2500 + len(every)))
        ),
        "bars": lambda size: b" 42%|##| 4/9 [1:1<3, 8s/it]\r" * (size // 30),
        "blanks": lambda size: b" " * size,
        "tracebacks": lambda size: b"Traceback (most recent call last):\nKeyError: 1\n" * (size // 47),
        "errors": lambda size: OOM * (size // len(OOM)),
        "losses": lambda size: b"{'loss': nan, 'grad_norm': nan}\n" * (size // 32),
        "libraries": lambda size: (b"lib.so" * 700 + b" undefined symbol\n") * (size // 4200),
        "escapes": lambda size: b"\x1b[" * (size // 2),
        "opened words of NCCL": lambda size: (b"NCCL WARN [" * 740 + b"\n") * (size // 8141),
        "prefixes": lambda size: (b"[rank1]: " * 400 + b"\n") * (size // 3600),
    }


@pytest.mark.parametrize("kind", _hostile_lines())
def test_the_time_grows_with_the_length_alone(kind: str) -> None:
    """No bound in seconds: four times the bytes may take about four times as long, and far from sixteen times."""
    build = _hostile_lines()[kind]

    def measure(size: int) -> float:
        log = build(size)
        best = float("inf")
        for _ in range(3):
            begin = time.process_time()
            diagnose(log, KnownExit(code=1))
            best = min(best, time.process_time() - begin)
        return best

    small = measure(120_000)
    assert measure(480_000) < 8 * small + 0.2
