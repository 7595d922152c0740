"""Stop, pause, limits and signals: the training process gets its grace, and nothing survives it."""

import signal
import sys
import time
from pathlib import Path

import pytest

from core.tests.runner.support.attempt import Attempt, find_interpreters, until
from core.tests.runner.support.ingest import Ingest
from starforge.contract import capsule as contract
from starforge.runner.wishes import Wishes

# Prints its ids, and leaves behind what a launcher leaves: a detached, TERM-proof grandchild in a session of its own.
STUBBORN = r"""
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(1, b"detached %d\n" % os.getpid())
        while True:
            time.sleep(1)
    os._exit(0)
os.wait()
os.write(1, b"leader %d\n" % os.getpid())
os.write(1, b"ready\n")
while True:
    time.sleep(1)
"""
SAVES_ON_TERM = """
import signal, sys, time
def save(*_):
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
while True:
    time.sleep(0.05)
"""


def is_alive(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] not in ("Z", "X")


def read_ids(log: bytes) -> list[int]:
    return [int(line.split()[1]) for line in log.splitlines() if line.startswith((b"detached", b"leader"))]


@pytest.mark.interpreters
@pytest.mark.parametrize("interpreter", find_interpreters())
def test_a_stop_leaves_nothing_of_a_job_that_ignores_it_and_forks_away(attempt: Attempt, interpreter: str) -> None:
    attempt.python(STUBBORN, interpreter, limits=contract.Limits(grace_s=30))
    process = attempt.start(interpreter)
    attempt.until_log(b"ready")
    until(lambda: len(read_ids(attempt.log())) == 2, "both ids")
    attempt.control("stop", grace_s=0.3)
    process.communicate(timeout=20)

    assert process.returncode == 137
    record = attempt.record()
    assert (record.code, record.signal, record.desired, record.term_received_at) == (137, 9, "stop", None)
    assert [is_alive(pid) for pid in read_ids(attempt.log())] == [False, False]


def test_a_job_that_ends_by_itself_leaves_nothing_behind(attempt: Attempt) -> None:
    attempt.python(STUBBORN.replace(r'os.write(1, b"ready\n")', "os._exit(0)"))

    assert attempt.run(timeout_s=20) == 0
    until(lambda: read_ids(attempt.log()), "an id")
    assert not any(is_alive(pid) for pid in read_ids(attempt.log()))


def test_a_pause_lets_the_job_save(attempt: Attempt) -> None:
    process = attempt.python(SAVES_ON_TERM).start()
    attempt.until_log(b"ready")
    attempt.control("pause", grace_s=20)
    process.communicate(timeout=20)

    assert process.returncode == 0
    assert attempt.log() == b"ready\nsaved\n"
    assert attempt.record().desired == "pause"
    assert attempt.events("stopping")[0]["why"] == "pause"


def test_a_job_has_its_whole_grace_however_often_it_is_told_what_is_left_of_it(attempt: Attempt) -> None:
    saver = SAVES_ON_TERM.replace('print("saved"', 'time.sleep(3); print("saved"')
    process = attempt.python(saver).start()
    attempt.until_log(b"ready")
    begun, grace_s = time.monotonic(), 4.5
    while process.poll() is None:
        attempt.control("stop", grace_s=max(0.0, begun + grace_s - time.monotonic()))
        time.sleep(0.2)
    process.communicate(timeout=20)

    assert (process.returncode, attempt.log()) == (0, b"ready\nsaved\n")


def test_a_grace_that_is_told_anew_becomes_shorter_and_never_longer(tmp_path: Path) -> None:
    wishes = Wishes(str(tmp_path / "control.json"), 30.0)
    wishes.offer("stop", 40.0)
    first = wishes.end_by
    wishes.offer("stop", 500.0)
    assert (wishes.grace_s, wishes.end_by) == (40.0, first)
    wishes.offer("pause", 10.0)
    assert wishes.end_by <= first - 29.0


def test_workers_have_the_rest_of_the_grace_when_their_launcher_dies_at_once(attempt: Attempt) -> None:
    saver = SAVES_ON_TERM.replace('print("saved"', 'time.sleep(0.5); print("saved"')
    launcher = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {saver!r}]); time.sleep(60)"
    process = attempt.python(launcher).start()
    attempt.until_log(b"ready")
    attempt.control("stop", grace_s=20)
    process.communicate(timeout=20)

    assert process.returncode == 128 + 15
    assert attempt.log() == b"ready\nsaved\n"


def test_a_term_that_nobody_wished_is_passed_on_and_remembered(attempt: Attempt) -> None:
    process = attempt.python(SAVES_ON_TERM).start()
    attempt.until_log(b"ready")
    before = time.time()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)

    record = attempt.record()
    assert (process.returncode, record.code, record.desired) == (0, 0, "run")
    assert record.term_received_at is not None
    assert before <= record.term_received_at <= time.time()
    assert attempt.log() == b"ready\nsaved\n"


def test_a_term_that_comes_with_a_wish_is_no_surprise(attempt: Attempt) -> None:
    process = attempt.python(SAVES_ON_TERM).start()
    attempt.until_log(b"ready")
    attempt.control("stop")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)

    assert (attempt.record().desired, attempt.record().term_received_at) == ("stop", None)


def test_a_wish_also_comes_in_ingests_answers(attempt: Attempt, ingest: Ingest) -> None:
    process = attempt.python(SAVES_ON_TERM, ingest=contract.Ingest(ingest.url)).start()
    attempt.until_log(b"ready")
    until(lambda: ingest.streams.get("log"), "the log at ingest")
    ingest.desired = "stop"
    process.communicate(timeout=20)

    assert (process.returncode, attempt.record().desired) == (0, "stop")


def test_an_attempt_that_is_stopped_before_its_start_starts_nothing(attempt: Attempt) -> None:
    attempt.prepare("bash", "-c", "echo started")
    attempt.control("stop")

    assert attempt.run() == 143
    assert attempt.record().desired == "stop"
    assert attempt.events("started") == []


def test_the_runner_ends_a_job_at_its_limit(attempt: Attempt) -> None:
    attempt.python(SAVES_ON_TERM, limits=contract.Limits(grace_s=20, max_runtime_s=1.0))

    assert attempt.run() == 0
    record = attempt.record()
    assert (record.reason, record.desired, record.code) == ("max_runtime", "run", 0)
    assert "after its limit of 1 s" in str(record.message)
    assert b"saved" in attempt.log()


def test_a_wish_is_not_taken_back(attempt: Attempt) -> None:
    process = attempt.python(SAVES_ON_TERM.replace("sys.exit(0)", "time.sleep(2); sys.exit(0)")).start()
    attempt.until_log(b"ready")
    attempt.control("stop", grace_s=20)
    attempt.until_log(b"saved")
    attempt.control("run", sequence=2)
    process.communicate(timeout=20)

    assert attempt.record().desired == "stop"


def test_a_half_written_control_file_changes_nothing(attempt: Attempt) -> None:
    process = attempt.python("import time; print('ready', flush=True); time.sleep(1)").start()
    attempt.until_log(b"ready")
    (attempt.root / contract.CONTROL_FILE).write_text('{"desired": "st')
    process.communicate(timeout=20)

    assert (process.returncode, attempt.record().desired) == (0, "run")


def test_the_runner_reaps_what_becomes_its_child(attempt: Attempt) -> None:
    code = """
import os, time
for _ in range(20):
    if os.fork() == 0:
        if os.fork() == 0:
            os._exit(0)
        os._exit(0)
    os.wait()
print("ready", flush=True)
time.sleep(60)
"""
    process = attempt.python(code).start(sys.executable)
    attempt.until_log(b"ready")
    zombies: list[str] = []

    def has_none() -> bool:
        zombies[:] = [path.name for path in Path("/proc").glob("[0-9]*") if _parent_of_zombie(path.name) == process.pid]
        return not zombies

    until(has_none, "no zombies")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    assert process.returncode == 143


def _parent_of_zombie(pid: str) -> int | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[1]) if fields[0] == "Z" else None
