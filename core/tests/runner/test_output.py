"""The job's output: complete, in order, masked, and never in the job's way."""

import fcntl
import json
import os
import random
import resource
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.tests.runner.support.attempt import Attempt, until
from starforge.runner.masking import Masker, build_patterns
from starforge.runner.spool import Spool, Stream
from starforge.runner.supervise import HOLD_S

SECRET = "hunter2-hunter2-hunter2"  # noqa: S105 - it opens nothing


def test_ten_megabytes_without_a_newline_and_every_byte_come_through(attempt: Attempt) -> None:
    code = "import os; os.write(1, bytes(range(256)) + b'\\xff\\xfe\\0'); print('x' * 10_000_000, end='')"
    assert attempt.python(code).run() == 0
    assert attempt.log() == bytes(range(256)) + b"\xff\xfe\0" + b"x" * 10_000_000


def test_a_job_of_a_few_milliseconds_is_recorded_whole(attempt: Attempt) -> None:
    assert attempt.prepare("echo", "short").run() == 0
    assert attempt.log() == b"short\n"
    assert attempt.record().started_at is not None


def test_output_of_both_streams_keeps_its_order(attempt: Attempt) -> None:
    code = "import sys\nfor i in range(200): print(i, file=(sys.stdout, sys.stderr)[i % 2])"
    assert attempt.python(code).run() == 0
    assert attempt.log().split() == [str(i).encode() for i in range(200)]


def test_a_secret_is_given_to_the_job_but_never_written(attempt: Attempt) -> None:
    code = """
import os, sys, time
from starforge import report
secret = os.environ["API_KEY"]
sys.stdout.write("in one piece " + secret + "\\n")
sys.stdout.write("in two " + secret[:9]); sys.stdout.flush()
time.sleep(0.02)
sys.stdout.write(secret[9:] + "\\n"); sys.stdout.flush()
report.log({secret: 1.0}, step=1)
report.note(secret)
assert "ingest-token" not in os.environ
"""
    attempt.secret("API_KEY", SECRET).secret("ingest-token", "a-token-of-ingest")
    assert attempt.python(code).run() == 0, attempt.log()

    stars = b"*" * len(SECRET)
    assert attempt.log() == b"in one piece " + stars + b"\nin two " + stars + b"\n"
    for path in attempt.root.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path
    assert SECRET.encode() not in attempt.stdout + attempt.stderr


def test_a_secret_that_is_written_piece_by_piece_is_masked(attempt: Attempt) -> None:
    code = """
import os, time
began, longest_s = time.monotonic(), 0.0
for letter in os.environ["API_KEY"]:
    time.sleep(0.01)
    os.write(1, letter.encode())
    began, longest_s = time.monotonic(), max(longest_s, time.monotonic() - began)
with open(os.environ["FORGE_OUT_DIR"] + "/longest_s", "w") as file:
    file.write(str(longest_s))
"""
    attempt.secret("API_KEY", SECRET).python(code)
    for _ in range(10):  # until the machine let it write without a longer pause
        (attempt.root / "spool" / "log.bin").unlink(missing_ok=True)
        assert attempt.run() == 0
        if float((attempt.root / "out" / "longest_s").read_text()) < HOLD_S / 2:
            break
        shutil.rmtree(attempt.root / "work")
    assert attempt.log() == b"*" * len(SECRET)


def test_what_may_begin_a_secret_is_held_for_a_tenth_of_a_second(attempt: Attempt) -> None:
    code = f"""
import os, time
os.write(1, b"ready\\n")
os.write(1, {SECRET[:10].encode()!r})
with open(os.environ["FORGE_OUT_DIR"] + "/written_at", "w") as file:
    file.write(str(time.time()))
time.sleep(30)
"""
    process = attempt.secret("API_KEY", SECRET).python(code).start()
    attempt.until_log(b"ready\n" + SECRET[:10].encode())
    shown_at = (attempt.root / "spool" / "log.bin").stat().st_mtime
    process.terminate()
    process.communicate(timeout=20)
    held_s = shown_at - float((attempt.root / "out" / "written_at").read_text())
    assert 0.05 < held_s < 0.7, held_s  # with what a busy machine adds


def test_a_short_secret_is_declared_and_not_masked(attempt: Attempt) -> None:
    attempt.secret("PIN", "1234").python("print(12345678)")
    assert attempt.run() == 0
    assert attempt.log() == b"12345678\n"
    assert "PIN is shorter than 8 bytes" in attempt.events("note")[0]["message"]


def test_a_full_pipe_of_the_engine_stops_neither_job_nor_record(attempt: Attempt) -> None:
    reader, writer = os.pipe()
    fcntl.fcntl(writer, 1031, 4096)  # F_SETPIPE_SZ
    process = attempt.python("print('y' * 3_000_000)").start(stdout=writer)
    os.close(writer)
    try:
        assert process.wait(timeout=30) == 0  # nobody ever read the pipe
    finally:
        os.close(reader)
    assert len(attempt.log()) == 3_000_001


def test_an_engine_that_closed_the_pipe_stops_neither(attempt: Attempt) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = attempt.python("print('y' * 100_000)").start(stdout=writer)
    os.close(writer)
    assert process.wait(timeout=30) == 0
    assert len(attempt.log()) == 100_001


@pytest.mark.parametrize("others", [0, 100], ids=["few", "many"])
def test_the_masker_agrees_with_masking_the_whole_stream_at_once(others: int) -> None:
    secrets = [b"abcabcab", b"cabcabXYZ", b"aaaaaaaaaa", b"abcabcabXabcabcabcabcXabcaaaaaaaa"]
    more = [b"another-%d" % number for number in range(others)]
    seed = time.time_ns()
    chance = random.Random(seed)
    pieces = [*secrets, b"abc", b"a", b"aaaaaa", b"X"]
    for _ in range(500):
        text = b"".join(chance.choice(pieces) for _ in range(12))
        expected = bytearray(text)
        for secret in secrets:
            for at in range(len(text)):
                if text.startswith(secret, at):
                    expected[at : at + len(secret)] = b"*" * len(secret)
        masker, given, at = Masker(build_patterns([*secrets, *more])), b"", 0
        while at < len(text):
            size = chance.randint(1, 7)
            given += masker.feed(text[at : at + size])
            at += size
        assert given + masker.flush() == bytes(expected), (seed, text)


def test_the_rest_of_a_secret_is_masked_when_its_beginning_was_flushed() -> None:
    masker = Masker([b"abcdefgh"])
    assert masker.feed(b"abcd") == b""
    assert masker.flush() == b"abcd"
    assert masker.feed(b"efgh!") == b"****!"


def test_a_secret_is_also_masked_as_json_writes_it_and_line_by_line() -> None:
    masker = Masker(build_patterns([b'first "line"\nsecond line\n']))
    shown = masker.feed(b'{"a": "first \\"line\\"\\nsecond line"} and second line') + masker.flush()
    assert b"second line" not in shown
    assert b"first" not in shown


def test_a_secret_is_also_masked_as_python_quotes_it_whole_and_line_by_line() -> None:
    value = 'a "quoted" line\\with é\n\tit\'s the "second" one\n'
    masker = Masker(build_patterns([value.encode()]))
    told = [str({"KEY": value}), ascii(value), repr(value.encode()), repr(value.splitlines()), repr(value + "more")]
    shown = masker.feed("\n".join(told).encode()) + masker.flush()
    assert not [word for word in (b"quoted", b"line", b"with", b"it", b"second", b"one") if word in shown]
    assert shown.count(b"more") == 1


def test_masking_a_megabyte_takes_milliseconds() -> None:
    masker = Masker(build_patterns([f"secret-number-{number}".encode() for number in range(10)]))
    text = b"loss 0.123 step 17 of 100000\n" * 36_000
    began = time.perf_counter()
    masker.feed(text)
    assert time.perf_counter() - began < 1.0


def test_a_long_key_of_many_lines_slows_the_output_of_a_job_down_but_little() -> None:
    lines = [b"%064d" % number for number in range(1000)]
    masker = Masker(build_patterns([b"\n".join(lines)]))
    began = time.perf_counter()
    shown = b"".join(masker.feed(b"loss 0.123 step %d %064d\n" % (step, step % 1200)) for step in range(300))
    shown += masker.flush()
    assert time.perf_counter() - began < 20.0
    assert shown.count(b"*" * 64) == 300


def test_a_hundred_thousand_lines_of_secrets_leave_the_output_of_a_job_its_pace() -> None:
    masker = Masker([b"%010d" % number for number in range(100_000)])
    began = time.perf_counter()
    shown = b"".join(masker.feed(b"loss 0.123 step %d %010d\n" % (step, step)) for step in range(1000))
    shown += masker.flush()
    assert time.perf_counter() - began < 5.0
    assert shown.count(b"*" * 10) == 1000


def test_a_secret_that_is_a_word_of_the_records_hides_what_they_say_and_breaks_none(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path / "spool"), build_patterns([b"checkpoint", b'"values":', b"12345678"]))
    spool.event("checkpoint", step=112345678, path="checkpoint-1", committed=True)
    spool.event("note", code="told", message='it said "values": [checkpoint]')
    spool.metrics(b'{"time":1.0,"step":112345678,"values":{"checkpoint/loss":0.5,"loss":0.25,"pin":12345678}}\n')
    events = [json.loads(line) for line in (tmp_path / "spool" / "events.jsonl").read_bytes().splitlines()]
    (line,) = (tmp_path / "spool" / "metrics.jsonl").read_bytes().splitlines()
    assert [(one["kind"], one.get("step"), one.get("path"), one.get("message")) for one in events] == [
        ("checkpoint", 112345678, "**********-1", None),
        ("note", None, None, "it said ********* [**********]"),
    ]
    said = json.loads(line)
    assert (said["step"], said["values"]) == (112345678, {"**********/loss": 0.5, "loss": 0.25, "pin": "********"})


def test_a_secret_that_is_the_seam_of_two_records_joins_none(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path / "spool"), build_patterns([b'}\n{"time']))
    lines = b'{"time":1.0,"step":1,"values":{"loss":0.5}}\n{"time":2.0,"step":2,"values":{"loss":0.25}}\n'
    spool.metrics(lines)
    assert (tmp_path / "spool" / "metrics.jsonl").read_bytes() == lines


@pytest.fixture
def four_bytes_a_file() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.usefixtures("four_bytes_a_file")
def test_storage_that_takes_only_a_part_keeps_none_of_it(tmp_path: Path) -> None:
    full = Stream(str(tmp_path / "stream"))
    assert full.append(b"12345") is False
    assert full.lost_bytes == 5
    assert (tmp_path / "stream").read_bytes() == b""
    assert full.append(b"123") is True


def test_bytes_that_were_lost_are_declared(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path / "spool"), [])
    spool.streams["log"].lost_bytes = 5
    spool.log(b"after the gap")
    assert b"5 bytes of log were lost" in (tmp_path / "spool" / "events.jsonl").read_bytes()


def test_the_log_is_in_the_spool_while_the_job_runs(attempt: Attempt) -> None:
    process = attempt.python("import time; print('now', flush=True); time.sleep(30)").start()
    until(lambda: attempt.log() == b"now\n", "the line")
    assert process.poll() is None
    process.terminate()
    process.communicate(timeout=20)


def test_memory_is_sampled_while_the_job_runs(attempt: Attempt) -> None:
    process = attempt.prepare("sleep", "30").start()
    until(lambda: attempt.events("usage"), "a sample")
    process.terminate()
    process.communicate(timeout=20)
    assert set(attempt.events("usage")[0]["memory"]) == {
        "oom",
        "oom_kill",
        "peak_bytes",
        "current_bytes",
        "limit_bytes",
    }
