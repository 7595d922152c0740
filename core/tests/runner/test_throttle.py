"""A flood of output is thinned out: what is left out is said, the end of it is there, and nothing else is touched."""

import re

from hypothesis import given
from hypothesis import strategies as st

from starforge.runner.throttle import Allowance, Throttle

SMALL = Allowance(burst_bytes=1000, rate_bytes_s=100, long_bytes=10_000, slow_bytes_s=10, kept_bytes=200, pause_s=1.0)
MARKER = re.compile(rb"\[starforge: (\d+) lines \((\d+) bytes\) are left out here: [^\n]*\]\n")


def line(number: int) -> bytes:
    return b"line %05d\n" % number


def test_what_fits_passes_as_it_is_and_at_once() -> None:
    throttle = Throttle()
    chunks = [line(number) * 1000 for number in range(100)]
    assert [throttle.feed(chunk, 0.0) for chunk in chunks] == chunks
    assert throttle.finish() == b""
    assert throttle.left_out_bytes == 0


def test_of_a_flood_the_beginning_and_the_end_are_there_and_a_marker_says_what_is_not() -> None:
    throttle, out = Throttle(SMALL), b""
    written = b"".join(line(number) for number in range(1000))
    for at in range(0, len(written), 110):
        out += throttle.feed(written[at : at + 110], 0.0)
    out += throttle.finish()
    (found,) = MARKER.finditer(out)
    before, after = out[: found.start()], out[found.end() :]
    assert written.startswith(before)
    assert written.endswith(after)
    assert len(before) > 800
    assert 150 < len(after) <= SMALL.kept_bytes
    assert int(found[2]) == len(written) - len(before) - len(after) == throttle.left_out_bytes
    assert int(found[1]) == written[len(before) : len(written) - len(after)].count(b"\n")


def test_while_a_flood_lasts_its_newest_lines_come_through_now_and_then() -> None:
    throttle, out = Throttle(SMALL), b""
    for tick in range(200):
        out += throttle.feed(b"".join(line(tick * 10 + number) for number in range(10)), tick * 0.1)
    assert len(MARKER.findall(out)) >= 5
    assert len(out) < SMALL.burst_bytes + 20 * SMALL.rate_bytes_s + SMALL.kept_bytes
    shown = [int(number) for number in re.findall(rb"line (\d+)\n", out)]
    assert shown == sorted(set(shown))
    assert shown[-1] > 1800


def test_what_waited_passes_once_the_job_is_calm_again() -> None:
    throttle = Throttle(SMALL)
    assert throttle.feed(b"x" * 1000, 0.0) == b"x" * 1000
    assert throttle.feed(b"later\n", 0.0) == b""
    assert throttle.release(0.5) == b""
    assert throttle.release(1.1) == b"later\n"
    assert throttle.feed(b"and on\n", 2.0) == b"and on\n"


def test_a_line_that_is_open_is_ended_before_a_marker() -> None:
    throttle = Throttle(SMALL)
    throttle.feed(b"a" * 1000, 0.0)
    throttle.feed(b"b" * 150 + b"\n" + b"c" * 150 + b"\n", 0.0)
    assert throttle.finish().startswith(b"\n[starforge: 1 lines (151 bytes) are left out here")


def test_a_log_that_has_become_very_long_grows_slowly() -> None:
    throttle, at, passed = Throttle(SMALL), 0.0, 0
    while passed < SMALL.long_bytes:
        at += 1.0
        passed += len(throttle.feed(line(1) * 9, at))
    later = sum(len(throttle.feed(line(1) * 9, at + tick)) for tick in range(1, 1001))
    assert later < SMALL.burst_bytes + 1001 * SMALL.slow_bytes_s + SMALL.kept_bytes


@given(st.lists(st.tuples(st.integers(0, 400), st.floats(0, 2)), max_size=40))
def test_every_byte_passes_or_is_counted(steps: list[tuple[int, float]]) -> None:
    throttle, out, now, written = Throttle(SMALL), b"", 0.0, 0
    for size_bytes, pause_s in steps:
        now += pause_s
        written += size_bytes
        out += throttle.feed(b"z" * size_bytes, now)
    out += throttle.finish()
    assert out.count(b"z") + throttle.left_out_bytes == written
