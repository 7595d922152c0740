"""Following a log: whatever happens to the console and however the job writes, no byte is lost or doubled."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from e2e.support.console import ConsoleProcess, wait_for
from e2e.support.engines import PrivateEngine
from e2e.support.projects import Experiment, make_experiment

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]

# The first attempt goes on until its engine dies under it, the second one ends by itself.
SCRIPT = r"""
attempt=0
while [ -e "$FORGE_OUT_DIR/$attempt" ]; do attempt=$((attempt + 1)); done
: > "$FORGE_OUT_DIR/$attempt"
trap 'printf "last words of %s\n" $attempt; exit 0' TERM
for ((i = 1; i <= 60; i++)); do
  printf 'attempt %s line %s \377\000 \033[31mred\033[0m\n' $attempt $i
  for p in 10 50 100; do printf '\r%s%% of %s' $p $i; sleep 0.03; done
  printf '\n'
  if [ $attempt = 0 ] && [ $i = 60 ]; then while :; do sleep 0.1; done; fi
done
printf 'without an end'
"""


@contextmanager
def following(probe: Experiment, job: str, to: Path, *options: str) -> Iterator["subprocess.Popen[bytes]"]:
    """`sf job logs -f` in a process of its own, whose output goes to a file."""
    argv = [str(Path(sys.executable).with_name("sf")), "job", "logs", "-f", *options, job]
    with (
        to.open("wb") as out,
        subprocess.Popen(
            argv, cwd=probe.project, stdout=out, stderr=subprocess.DEVNULL, env=probe.console.environment
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def _holds(file: Path, mark: bytes) -> bool:
    return mark in file.read_bytes()


def spool_of(console: ConsoleProcess, job: str, attempt: int) -> bytes:
    return (console.storage / "runs" / job / "attempts" / str(attempt) / "spool" / "log.bin").read_bytes()


def test_a_follower_gets_every_byte_of_two_attempts_while_the_console_is_killed_again_and_again(
    console: ConsoleProcess, image: str, machine: PrivateEngine, tmp_path: Path
) -> None:
    probe = make_experiment(console, image, SCRIPT)
    job = probe.submit(profile="any:1")
    probe.wait_state(job, "RUNNING")
    raw, shown = tmp_path / "raw", tmp_path / "shown"
    with following(probe, job, raw, "--raw") as first, following(probe, job, shown) as second:
        for mark in (b"attempt 0 line 5 ", b"attempt 0 line 30 "):
            wait_for(partial(_holds, raw, mark), str(mark))
            console.kill()
            console.start()
        wait_for(partial(_holds, raw, b"100% of 60\n"), "the end of the first attempt", 90)
        machine.stop()
        machine.start()
        wait_for(partial(_holds, raw, b"attempt 1 line 20 "), "the second attempt", 120)
        console.kill()
        console.start()
        assert first.wait(120) == 0
        assert second.wait(120) == 0
    spools = [spool_of(console, job, attempt) for attempt in (1, 2)]
    assert raw.read_bytes() == b"".join(spools)
    assert b"last words of 0\n" in spools[0]
    lines = shown.read_text().split("\n")
    for attempt in range(2):
        assert [line for line in lines if line.startswith(f"attempt {attempt} line")] == [
            f"attempt {attempt} line {number} \ufffd\u2400 red" for number in range(1, 61)
        ]
    assert [line for line in lines if "% of" in line] == [f"100% of {number}" for number in range(1, 61)] * 2
    assert lines[-2:] == ["without an end", ""]
