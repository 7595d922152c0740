"""The real API server belongs to the test that started it."""

import subprocess
import sys
from pathlib import Path

import pytest

from core.tests.containers.builders import wait_until
from e2e.support.kube.real import find_obstacle

pytestmark = pytest.mark.kube_real
ROOT = Path(__file__).resolve().parents[2]
DIES = """
import os, signal
from e2e.support.kube.real import real_api
with real_api() as api:
    print(*(process.pid for process in api.processes), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_its_programs_end_with_whoever_started_them_however_that_dies() -> None:
    obstacle = find_obstacle()
    if obstacle:
        pytest.skip(obstacle)
    died = subprocess.run([sys.executable, "-c", DIES], cwd=ROOT, capture_output=True, text=True, check=False)
    pids = died.stdout.split()
    assert len(pids) == 2, died.stderr
    wait_until(lambda: not any(_runs(pid) for pid in pids), "both ended")


def _runs(pid: str) -> bool:
    """Whether the process lives; one that waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except FileNotFoundError:
        return False
