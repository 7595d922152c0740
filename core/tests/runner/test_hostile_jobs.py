"""Jobs that work against their runner: the outcome stays theirs, and a stop stays a stop."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from core.tests.runner.conftest import TOKEN
from core.tests.runner.support.attempt import Attempt, find_interpreters, until
from core.tests.runner.support.ingest import Ingest
from starforge.contract import capsule as contract

# Puts a thing in the place of a file of the attempt's directory, and keeps it there.
LAY = """
import os, signal, socket, sys, time
root = os.path.dirname(os.environ["FORGE_CKPT_DIR"])
def lay(kind, path):
    path = os.path.join(root, path)
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    if kind == "pipe": os.mkfifo(path)
    if kind == "directory": os.mkdir(path)
    if kind == "endless": os.symlink("/dev/zero", path)
    if kind == "huge": os.truncate(os.open(path, os.O_CREAT | os.O_RDWR), 1 << 40)
    if kind == "deep": open(path, "w").write("[" * 60000)
"""
KINDS = ("pipe", "directory", "endless", "huge", "deep")
WAITS = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('laid', flush=True)\nwhile True: time.sleep(1)\n"


@pytest.mark.parametrize("kind", KINDS)
def test_a_limit_holds_whatever_lies_in_the_place_of_the_control_file(attempt: Attempt, kind: str) -> None:
    limits = contract.Limits(grace_s=0.2, max_runtime_s=2.0)
    attempt.python(f"{LAY}lay({kind!r}, 'control.json')\n{WAITS}", limits=limits)

    assert attempt.run(timeout_s=30) == 137
    assert attempt.record().reason == "max_runtime"
    notes = [note["message"] for note in attempt.events("note")]
    assert len([text for text in notes if "control.json" in text]) == 1, notes


@pytest.mark.parametrize("kind", ["pipe", "endless"])
def test_a_stop_that_ingest_tells_holds_as_well(attempt: Attempt, ingest: Ingest, kind: str) -> None:
    process = attempt.python(f"{LAY}lay({kind!r}, 'control.json')\n{WAITS}", ingest=contract.Ingest(ingest.url)).start()
    attempt.until_log(b"laid")
    ingest.grace_s, ingest.desired = 0.2, "stop"
    process.communicate(timeout=30)
    assert (process.returncode, attempt.record().desired) == (137, "stop")


def test_a_job_cannot_give_itself_more_grace_or_outrun_a_stop(attempt: Attempt) -> None:
    forged = {"desired": "stop", "grace_s": 1e300, "sequence": 10**18}
    code = f"open(os.path.join(root, 'control.json'), 'w').write({json.dumps(forged)!r})"
    process = attempt.python(f"{LAY}{code}\n{WAITS}", limits=contract.Limits(grace_s=60)).start()
    attempt.until_log(b"laid")
    until(lambda: attempt.events("stopping"), "the forged stop")
    attempt.control("stop", grace_s=0.2)
    process.communicate(timeout=30)
    assert process.returncode == 137


def test_a_forged_stop_does_not_lift_the_limit(attempt: Attempt) -> None:
    forged = {"desired": "stop", "grace_s": 80000}
    code = f"open(os.path.join(root, 'control.json'), 'w').write({json.dumps(forged)!r})"
    limits = contract.Limits(grace_s=0.5, max_runtime_s=2)
    assert attempt.python(f"{LAY}{code}\n{WAITS}", limits=limits).run(timeout_s=30) == 137


def test_a_forged_run_makes_no_later_stop_old(attempt: Attempt) -> None:
    forged = {"desired": "run", "sequence": 10**18}
    code = f"open(os.path.join(root, 'control.json'), 'w').write({json.dumps(forged)!r})"
    process = attempt.python(f"{LAY}{code}\n{WAITS}").start()
    attempt.until_log(b"laid")
    attempt.control("stop", grace_s=0.2)
    process.communicate(timeout=30)
    assert (process.returncode, attempt.record().desired) == (137, "stop")


ALL = """
for path in ("control.json", "exit.json", "exit.json.tmp", "spool/log.bin", "spool/metrics.jsonl",
             "spool/events.jsonl", "work/log.jsonl", "work/events.tfevents.1", "out/model", "ckpt/checkpoint-1/weights",
             "ckpt/checkpoint-1/starforge-checkpoint.json", "ckpt/checkpoint-1/starforge-checkpoint.json.tmp",
             os.environ["FORGE_REPORT_FILE"]):
    os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
    lay(sys.argv[1], path)
print("laid", flush=True)
time.sleep(2)
"""
PLAN = contract.Plan(
    argv=(),
    metric_sources=(contract.MetricSource("jsonl", "log.jsonl"), contract.MetricSource("tensorboard", ".")),
    checkpoint=contract.CheckpointRule("folders", "checkpoint-*", ("*",)),
)


@pytest.mark.parametrize("kind", KINDS)
def test_the_outcome_stays_whatever_lies_in_the_place_of_every_file(
    attempt: Attempt, ingest: Ingest, kind: str
) -> None:
    attempt.prepare(sys.executable, "-c", LAY + ALL, kind, plan=PLAN, ingest=contract.Ingest(ingest.url))
    began = time.monotonic()

    assert attempt.run(timeout_s=60) == 0, attempt.stderr
    assert time.monotonic() - began < 45
    record = attempt.record()
    assert (record.code, record.reason) == (0, None)
    until(lambda: ingest.exits, "the record at ingest")
    assert ingest.streams["log"] == b"laid\n"
    assert b'"kind":"ended"' in ingest.streams["events"]


def test_folders_nested_without_end_change_no_outcome(attempt: Attempt) -> None:
    code = """
for name in ("FORGE_OUT_DIR", "FORGE_CKPT_DIR"):
    os.chdir(os.environ[name])
    os.mkdir("checkpoint-1"); os.chdir("checkpoint-1")
    for _ in range(1500):
        os.mkdir("d"); os.chdir("d")
"""
    assert attempt.python(LAY + code, plan=PLAN).run() == 0
    assert (attempt.record().code, attempt.record().reason) == (0, None)


def test_a_runner_whose_archive_moved_away_goes_on(attempt: Attempt, ingest: Ingest) -> None:
    code = "mv ../.starforge ../elsewhere; sleep 1; echo moved"
    assert attempt.prepare("bash", "-c", code, plan=PLAN, ingest=contract.Ingest(ingest.url)).run() == 0
    assert attempt.log() == b"moved\n"
    assert ingest.streams["log"] == b"moved\n"
    assert ingest.exits == [attempt.record().to_json()]
    assert attempt.events("note") == []


WITNESS = """
import sys
late = []
class Witness:
    @staticmethod
    def find_spec(name, path=None, target=None):
        rest, frame = sys.modules.get("starforge.runner.rest"), sys._getframe()
        while rest and frame and frame.f_globals is not rest.__dict__:
            frame = frame.f_back
        if rest and not frame:
            late.append(name)
sys.meta_path.insert(0, Witness)
sys.argv = [{runner!r}, "run"]
sys.path.insert(0, {runner!r})
from starforge.runner.main import main
import os, threading
code = main(sys.argv)
found = sorted(set(late))
try:
    import there_is_no_such_module
except ImportError:
    print(code, found, late[-1:], file=sys.stderr)
"""


@pytest.mark.interpreters
@pytest.mark.parametrize("interpreter", find_interpreters())
def test_nothing_is_imported_once_the_job_runs(attempt: Attempt, ingest: Ingest, interpreter: str) -> None:
    attempt.python("import time; time.sleep(1.5)", plan=PLAN, ingest=contract.Ingest(ingest.url))
    code = WITNESS.format(runner=str(attempt.capsule / contract.RUNNER_FILE))
    environment = {
        **os.environ,
        contract.ENV_SECRETS_DIR: str(attempt.secrets),
        contract.ENV_CAPSULE_DIGEST: attempt.digest,
        contract.ENV_ATTEMPT: "j0123456789-1-abcdef",
    }
    command = [interpreter, "-I", "-S", "-c", code]
    ran = subprocess.run(command, cwd=attempt.root, env=environment, capture_output=True, check=False, timeout=60)
    assert ran.stderr.strip().splitlines()[-1] == b"0 [] ['there_is_no_such_module']", ran.stderr


def test_the_sender_goes_on_when_the_spools_files_are_gone(attempt: Attempt, ingest: Ingest) -> None:
    code = "import shutil, time; shutil.rmtree('../spool'); print('gone', flush=True); time.sleep(1)"
    assert attempt.python(code, ingest=contract.Ingest(ingest.url)).run() == 0
    assert ingest.streams["log"] == b"gone\n"
    assert len(ingest.exits) == 1


def test_a_spool_that_was_cut_is_declared_and_nobody_waits_for_the_rest(attempt: Attempt, ingest: Ingest) -> None:
    code = "import os, time; os.truncate('../spool/events.jsonl', 0); time.sleep(1)"
    process = attempt.python(code, ingest=contract.Ingest(ingest.url)).start()
    assert process.wait(timeout=30) == 0
    until(lambda: ingest.exits, "the record at ingest")


FLOOD = """
import os, sys, time
fd = 1 if sys.argv[1] == "stdout" else os.open(os.environ["FORGE_REPORT_FILE"], os.O_WRONLY | os.O_APPEND)
for _ in range(100): os.write(fd, b"x" * (1 << 20))
os.write(fd, b'\\n{"time":1,"step":2,"values":{"after":1}}\\n')
"""


@pytest.mark.parametrize("target", ["stdout", "report"])
def test_a_line_of_100_mb_costs_the_runner_no_memory(attempt: Attempt, ingest: Ingest, target: str) -> None:
    attempt.secret("API_KEY", "hunter2-hunter2-hunter2").secret("ingest-token", TOKEN)
    attempt.prepare(sys.executable, "-c", FLOOD, target, ingest=contract.Ingest(ingest.url))
    # The job's own start needs more than the growth that is allowed, so the peak is asked of the runner alone.
    process = attempt.start()
    peak_kb = 0
    while process.poll() is None:
        peak_kb = max(peak_kb, find_peak_kb(process.pid))
        time.sleep(0.005)
    assert process.returncode == 0
    assert 0 < peak_kb < (25 + 64) << 10
    if target == "report":
        assert attempt.metrics()[-1]["values"] == {"after": 1}


def find_peak_kb(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/status").read_text()
        return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("VmHWM")), 0)
    except OSError:
        return 0


@pytest.mark.interpreters
@pytest.mark.parametrize("interpreter", find_interpreters())
@pytest.mark.parametrize(
    "sends", ["os.kill(os.getppid(), signal.SIGTERM)", "os.system('kill -INT %d; sleep 20' % os.getppid())"]
)
def test_a_term_that_the_job_sends_its_runner_is_its_own_doing(attempt: Attempt, sends: str, interpreter: str) -> None:
    # Before that the runner cannot tell who sends: while it starts a process, no signal is blocked.
    until_started = 'while b"started" not in open("../spool/events.jsonl", "rb").read(): time.sleep(0.01)'
    code = f"import os, signal, time\n{until_started}\n{sends}\ntime.sleep(60)"
    process = attempt.python(code).start(interpreter)
    process.communicate(timeout=30)

    record = attempt.record()
    notes = [note["code"] for note in attempt.events("note")]
    assert record.signal == signal.SIGTERM
    if knows_senders(interpreter):
        assert (record.term_from_inside, record.term_received_at is None, notes) == (True, True, ["term_from_inside"])
    else:  # PyPy tells no sender: the TERM counts as one from outside, which never makes a success of it
        assert (record.term_from_inside, record.term_received_at is None, notes) == (False, False, [])


def knows_senders(interpreter: str) -> bool:
    ran = subprocess.run([interpreter, "-c", "from signal import sigwaitinfo"], capture_output=True, check=False)
    return ran.returncode == 0


def test_a_job_does_not_inherit_what_the_runner_blocks(attempt: Attempt) -> None:
    code = "import signal; print(sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])))"
    assert attempt.python(code).run() == 0
    assert attempt.log() == b"[]\n"
