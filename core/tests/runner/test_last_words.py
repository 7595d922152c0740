"""The line of a failed training that a first look shows."""

import pytest

from core.tests.runner.support.attempt import Attempt
from starforge.runner.last_words import MOST_CHARACTERS, find_last_line

SECRET = "hunter2-hunter2-hunter2"  # noqa: S105 - it opens nothing

RAISED = """\
Loading model
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    load()
    ~~~~^^
  File "train.py", line 2, in load
    raise ValueError("no column text")
ValueError: no column text
"""
CHAINED = (
    RAISED
    + """
During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "train.py", line 9, in <module>
    main()
RuntimeError: cannot load the data
"""
)
UNDER_TORCHRUN = """\
[rank1]: Traceback (most recent call last):
[rank1]:   File "train.py", line 3, in <module>
[rank1]:     step()
[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.
W1130 02:00:00.000 12 torch/elastic Sending process 14 closing signal SIGTERM
E1130 02:00:00.000 12 torch/elastic failed (exitcode: 1) local_rank: 1
Traceback (most recent call last):
  File "torch/distributed/run.py", line 900, in <module>
    main()
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""


@pytest.mark.parametrize(
    ("tail", "line"),
    [
        ("", None),
        ("\n \r\n\t\n", None),
        ("one\ntwo\n\n", "two"),
        ("no newline at the end", "no newline at the end"),
        (RAISED, "ValueError: no column text"),
        (RAISED + "wandb: run ended\n", "ValueError: no column text"),
        (RAISED + "step\n" * 50 + "Killed\n", "Killed"),
        (CHAINED, "RuntimeError: cannot load the data"),
        (UNDER_TORCHRUN, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB."),
        (UNDER_TORCHRUN.partition("W1130")[2], "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:"),
        ("Traceback (most recent call last):\n  File x\n", "File x"),  # cut off before it named its error
        ("10%|#  \r20%|## \r30%|###\r\n", "30%|###"),
        ("\x1b[31mred\x1b[0m \x1b]0;title\x07and \x1b(Bplain", "red and plain"),
        ("a\x07b\x00c\u202ed\ue000", "a b c d"),
        ("x" * 500, "x" * 199 + "…"),
    ],
)
def test_the_last_error_goes_before_the_last_line(tail: str, line: str | None) -> None:
    assert find_last_line(tail.encode()) == line


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert find_last_line(b"\xff\xfeout of \x80memory\n") == "\ufffd\ufffdout of \ufffdmemory"


@pytest.mark.parametrize("tail", [b"\x1b" * 65_536, b"\x1b]" * 30_000, b"\x1b[" + b"1;" * 30_000, b"\r" * 65_536])
def test_no_tail_takes_long(tail: bytes) -> None:
    line = find_last_line(tail)
    assert line is None or len(line) <= MOST_CHARACTERS


def test_a_failed_training_leaves_its_last_error_without_secrets(attempt: Attempt) -> None:
    code = "import os, sys; print('about to fail'); sys.stdout.flush(); raise ValueError(os.environ['API_KEY'])"
    assert attempt.secret("API_KEY", SECRET).python(code).run() == 1
    assert attempt.record().last_line == f"ValueError: {'*' * len(SECRET)}"


def test_a_job_that_wrote_a_secret_into_its_own_log_does_not_bring_it_into_the_record(attempt: Attempt) -> None:
    code = """
import os, sys, time
print("x" * 100)
while os.path.getsize("../spool/log.bin") < 101:
    time.sleep(0.01)
with open("../spool/log.bin", "r+b") as log:
    log.write(os.environ["API_KEY"].encode())
sys.exit(3)
"""
    assert attempt.secret("API_KEY", SECRET).python(code).run() == 3
    assert attempt.record().last_line == "*" * len(SECRET) + "x" * (100 - len(SECRET))


def test_a_training_that_ends_well_or_never_began_leaves_none(attempt: Attempt) -> None:
    assert attempt.python("print('done')").run() == 0
    assert attempt.record().last_line is None


def test_a_refusal_before_the_start_leaves_none(attempt: Attempt) -> None:
    assert attempt.prepare("not-a-program-of-this-image").run() == 127
    assert attempt.record().last_line is None
