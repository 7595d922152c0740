"""A cluster that runs each job as the Unix user of whoever submitted it."""

from pathlib import Path

import pytest

from e2e.support.console import ConsoleProcess
from e2e.support.projects import make_experiment
from e2e.support.slurm_lab import USERS

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(300)]


@pytest.fixture
def changes(tmp_path: Path) -> dict[str, str]:
    users = tmp_path / "users"
    users.write_text(f"ada bob {USERS['bob']} {USERS['bob']}\n")
    return {"FORGE_SLURM_JOB_USER": "submitter", "FORGE_SLURM_USER_MAP": str(users)}


def test_a_job_runs_as_its_submitters_own_user_and_owns_what_it_leaves(console: ConsoleProcess) -> None:
    probe = make_experiment(console, "none:1", 'id -u; echo kept >"$FORGE_OUT_DIR/kept"')
    job = probe.submit()
    assert probe.wait_end(job)["job"]["state"] == "SUCCEEDED", probe.log(job)
    assert probe.log(job).split() == [str(USERS["bob"])]
    kept = console.storage / "runs" / job / "out" / "kept"
    assert kept.stat().st_uid == USERS["bob"]
