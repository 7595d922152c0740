"""A console is lost and restored from a backup that was made under load: its machine knows more than its ledger."""

import json
import shutil
import urllib.error
from http import HTTPStatus

import pytest

from e2e.main.test_crashes import COUNT_STARTS, starts_of
from e2e.support.console import ConsoleProcess, wait_for
from e2e.support.engines import PrivateEngine
from e2e.support.projects import Experiment, make_experiment

pytestmark = pytest.mark.engine

TRAIN = (
    COUNT_STARTS
    + """exec python3 - <<'PY'
import os
import time
from starforge import report

step = 0
while not os.path.exists(os.environ["FORGE_OUT_DIR"] + "/go"):
    step += 1
    report.log({"loss": 1 / step}, step=step)
    print("step", step, flush=True)
    time.sleep(0.05)
PY
"""
)


def containers_of(machine: PrivateEngine, job: str) -> list[str]:
    return sorted(one["Id"] for one in machine.engine.list_containers(f"forge.job={job}") if one["State"] == "running")


def curve_of(probe: Experiment, job: str) -> list[float]:
    try:
        told = probe.console.get(f"/api/v1/jobs/{job}/metrics/loss?points=10000", probe.token)
    except urllib.error.HTTPError as error:
        if error.code != HTTPStatus.NOT_FOUND:
            raise
        return []
    return [float(value) for value in told["values"]]


def note_of(probe: Experiment, job: str) -> str:
    return str(probe.detail(job)["job"]["note"])


def let_end(probe: Experiment, job: str) -> None:
    (probe.console.storage / "runs" / job / "out" / "go").touch()


def lose(console: ConsoleProcess) -> None:
    """The machine's disk with the console's state is gone; engine and storage are as they were."""
    console.kill()
    shutil.move(console.folder / "state", console.folder / "lost")


def test_what_ran_goes_on_what_ended_is_known_and_nothing_starts_twice(
    console: ConsoleProcess, image: str, machine: PrivateEngine
) -> None:
    probe = make_experiment(console, image, TRAIN)
    seen = probe.submit(profile="any:2")
    wait_for(lambda: len(curve_of(probe, seen)) > 20, "curves to come in")
    later = probe.submit(profile="any:1")
    before = curve_of(probe, seen)
    console.admin("backup", str(console.folder / "backup"))
    assert len(curve_of(probe, seen)) > len(before)

    # After the backup one job ends, the one that waited begins, and a third one is submitted.
    let_end(probe, seen)
    assert probe.wait_end(seen)["job"]["state"] == "SUCCEEDED"
    log, curve = probe.log(seen), curve_of(probe, seen)
    probe.wait_state(later, "RUNNING")
    wait_for(lambda: starts_of(probe, later) == 1, "the job to begin")
    unknown = probe.submit(profile="any:1")
    probe.wait_state(unknown, "RUNNING")
    running = {job: containers_of(machine, job) for job in (later, unknown)}
    assert [len(found) for found in running.values()] == [1, 1]

    lose(console)
    told = console.admin("restore", str(console.folder / "backup")).stderr
    assert f"newer than the backup, its job is held: attempt 1 of job {later} (storage)" in told
    assert f"job without a record: {unknown}" in told
    console.start()
    probe.wait_state(later, "PAUSED")
    assert "older than attempt 1" in note_of(probe, later)
    assert probe.wait_end(seen)["job"]["state"] == "SUCCEEDED"
    assert (probe.log(seen), curve_of(probe, seen)) == (log, curve)
    assert {job: containers_of(machine, job) for job in (later, unknown)} == running
    assert starts_of(probe, later) == 1

    # What has no record ends by itself. Whoever owns the other one has looked, and lets it go on beside what runs.
    let_end(probe, unknown)
    wait_for(lambda: not containers_of(machine, unknown), "the job without a record to end")
    console.sf("job", "resume", later, cwd=probe.project)
    wait_for(lambda: starts_of(probe, later) == 2, "its next attempt to begin")
    assert set(containers_of(machine, later)) > set(running[later])
    let_end(probe, later)
    detail = probe.wait_end(later)
    assert (detail["job"]["state"], [one["number"] for one in detail["attempts"]]) == ("SUCCEEDED", [2])


def test_what_ran_when_the_backup_was_made_runs_on_below_a_console_that_was_restored_elsewhere(
    console: ConsoleProcess, image: str, machine: PrivateEngine
) -> None:
    probe = make_experiment(console, image, TRAIN)
    job = probe.submit(profile="any:1")
    wait_for(lambda: len(curve_of(probe, job)) > 20, "curves to come in")
    before, running = probe.detail(job), containers_of(machine, job)
    assert json.loads(console.admin("backup", str(console.folder / "backup"), "--json").stdout)["gaps"] == []
    known = len(curve_of(probe, job))
    wait_for(lambda: len(curve_of(probe, job)) > known + 20, "more than is in the backup")

    console.kill()
    console.environment["FORGE_CONSOLE_STATE_DIR"] = str(console.folder / "elsewhere")
    told = json.loads(console.admin("restore", str(console.folder / "backup"), "--json").stdout)
    assert (told["gaps"], told["newer"], told["unknown"], told["blobs"]) == ([], [], [], [])
    console.start()
    wait_for(lambda: len(curve_of(probe, job)) > known + 40, "what came after the backup, and what comes now")
    after = probe.detail(job)
    assert after["events"][: len(before["events"])] == before["events"]
    assert (after["job"]["state"], after["spec"]) == ("RUNNING", before["spec"])
    assert (containers_of(machine, job), starts_of(probe, job)) == (running, 1)

    let_end(probe, job)
    detail = probe.wait_end(job)
    assert (detail["job"]["state"], [one["number"] for one in detail["attempts"]]) == ("SUCCEEDED", [1])
    curve = curve_of(probe, job)
    assert curve == pytest.approx([1 / step for step in range(1, len(curve) + 1)])
    steps = [line for line in probe.log(job).splitlines() if line.startswith("step ")]
    assert steps == [f"step {number}" for number in range(1, len(curve) + 1)]
