"""The disk of the console's own state is full while a job reports: what was answered is kept, and all arrives."""

import urllib.error
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Final

import pytest

from e2e.badinput.calls import Answer
from e2e.badinput.yard import Yard, write_sound
from e2e.support.console import wait_for
from e2e.support.disks import small_disk, take_all_room

pytestmark = pytest.mark.engine

LINES: Final = 400
TRAIN: Final = f"""exec python3 - <<'PY'
import os
import time
from starforge import report

out = os.environ["FORGE_OUT_DIR"]
for step in range(1, {LINES + 1}):
    report.log({{"loss": step}}, step=step)
    print("step", step, "." * 2000, flush=True)
    while step == 100 and not os.path.exists(out + "/go"):
        time.sleep(0.05)
PY
"""
MOST_ATTEMPTS: Final = 400


@pytest.fixture(scope="module")
def state_disk() -> Iterator[Path]:
    with small_disk(24 << 20) as place:
        place.chmod(0o700)
        yield place


@pytest.fixture(scope="module")
def settings(state_disk: Path) -> dict[str, str]:
    return {"FORGE_CONSOLE_STATE_DIR": str(state_disk)}


def submit_until_refused(yard: Yard) -> tuple[list[str], Answer]:
    """Jobs that were accepted, for a ledger has some room of its own, and the first refusal."""
    spec = yard.spec_with(yard.upload(write_sound))
    accepted: list[str] = []
    for _ in range(MOST_ATTEMPTS):
        answer = yard.send(spec)
        if answer.status != HTTPStatus.CREATED:
            return accepted, answer
        accepted.append(str(answer.body["job"]))
    raise AssertionError("the ledger was never full")


def curve_of(yard: Yard, job: str) -> list[float]:
    try:
        told = yard.console.get(f"/api/v1/jobs/{job}/metrics/loss?points=10000", yard.probe.token)
    except urllib.error.HTTPError as error:
        if error.code != HTTPStatus.NOT_FOUND:
            raise
        return []
    return [float(value) for value in told["values"]]


def test_what_was_answered_is_kept_and_what_was_reported_meanwhile_arrives(yard: Yard, state_disk: Path) -> None:
    job = yard.begin(TRAIN, profile="any:2")
    wait_for(lambda: len(curve_of(yard, job)) >= 100, "the first half to arrive")
    filler = take_all_room(state_disk)
    accepted, refused = submit_until_refused(yard)
    assert (refused.status, refused.code) == (503, "ledger_failed")
    assert "disk is full" in refused.words
    assert "FORGE_CONSOLE_STATE_DIR" in refused.words
    (yard.out(job) / "go").touch()  # the second half comes while nothing can be kept
    spool = yard.run_folder(job) / "attempts" / "1" / "spool" / "log.bin"
    wait_for(lambda: f"step {LINES} ".encode() in spool.read_bytes(), "the job to write it")
    assert yard.console.get("/healthz")["status"] == "ok"  # it is there to say why
    assert set(accepted) <= set(yard.list_jobs())

    filler.unlink()
    detail = yard.probe.wait_end(job)
    assert detail["job"]["state"] == "SUCCEEDED"
    assert detail["log"]["received_bytes"] == detail["log"]["produced_bytes"] == spool.stat().st_size
    assert [line.split()[1] for line in yard.probe.log(job).splitlines()] == [str(n) for n in range(1, LINES + 1)]
    assert curve_of(yard, job) == [float(n) for n in range(1, LINES + 1)]
    for one in accepted:
        assert yard.probe.wait_end(one)["job"]["state"] == "SUCCEEDED"
