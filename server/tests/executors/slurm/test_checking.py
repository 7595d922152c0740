"""What an administrator is told before jobs are sent to a cluster."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from server.tests.executors.slurm.daemon import Daemon, build_settings
from server.tests.executors.slurm.replies import job, jobs
from starforge_console.cli.main import main
from starforge_console.executors.slurm.checking import ClusterReport, check_cluster
from starforge_console.executors.slurm.replies import SlurmSilent
from starforge_console.settings.slurm import ClusterUser


def partition(name: str) -> dict[str, Any]:
    return {"name": name, "partition": {"state": ["UP"]}}


def serve(daemon: Daemon, *partitions: str) -> None:
    node = {"name": "cn1", "state": ["IDLE"], "partitions": list(partitions), "cpus": 8, "real_memory": 1000}
    daemon.answers["/slurm/v0.0.41/jobs"] = (200, jobs(job("RUNNING")))
    daemon.answers["/slurm/v0.0.41/nodes"] = (200, {"nodes": [node]})
    daemon.answers["/slurm/v0.0.41/partitions"] = (200, {"partitions": [partition(name) for name in partitions]})


def check(daemon: Daemon, tmp_path: Path, job_uid: int = 2001, **changes: Any) -> ClusterReport:
    return asyncio.run(check_cluster(build_settings(daemon, tmp_path, **changes), lambda _: None, job_uid))


@pytest.mark.parametrize(("job_uid", "user", "is_told"), [(0, "ada", True), (2001, "ada", False), (0, "root", False)])
def test_folders_that_would_be_roots_are_told(
    daemon: Daemon, tmp_path: Path, job_uid: int, user: str, *, is_told: bool
) -> None:
    serve(daemon, "gpu")
    found = check(daemon, tmp_path, job_uid, user=user).warnings
    assert any("FORGE_JOB_UID" in warning and user in warning for warning in found) == is_told


@pytest.mark.parametrize(("job_uid", "is_told"), [("0", True), ("2001", False)])
def test_the_command_knows_whose_the_folders_would_be(
    daemon: Daemon, tmp_path: Path, job_uid: str, *, is_told: bool
) -> None:
    serve(daemon, "gpu")
    env = {
        "FORGE_CONSOLE_STATE_DIR": str(tmp_path / "state"),
        "FORGE_STORAGE_ROOT": str(tmp_path / "not-made-yet"),
        "FORGE_JOB_UID": job_uid,
        "FORGE_SLURM_URL": f"http://127.0.0.1:{daemon.port}",
        "FORGE_SLURM_USER": "ada",
        "FORGE_SLURM_TOKEN": "t",
        "FORGE_SLURM_RUNTIME": "none",
    }
    told = CliRunner().invoke(main, ["check", "slurm"], env=env)
    assert told.exit_code == 0, told.output
    assert ("warning: the folders of attempts would be root's" in told.stderr) == is_told


def test_a_map_of_users_gives_folders_to_their_own(daemon: Daemon, tmp_path: Path) -> None:
    serve(daemon, "gpu")
    assert not check(daemon, tmp_path, 0, submitters={"ann": ClusterUser("annette", 2001, 2001)}).warnings


def test_the_only_partition_is_the_one(daemon: Daemon, tmp_path: Path) -> None:
    serve(daemon, "gpu")
    assert check(daemon, tmp_path).partition == "gpu"


def test_which_of_several_partitions_is_not_guessed(daemon: Daemon, tmp_path: Path) -> None:
    serve(daemon, "gpu", "cpu")
    assert check(daemon, tmp_path, partition="cpu").partition == "cpu"
    with pytest.raises(SlurmSilent, match="does not tell which of its partitions is the default") as caught:
        check(daemon, tmp_path)
    assert "FORGE_SLURM_PARTITION" in (caught.value.next_step or "")
    assert "gpu, cpu" in (caught.value.next_step or "")


def test_a_partition_that_is_not_there_is_told_by_its_name(daemon: Daemon, tmp_path: Path) -> None:
    serve(daemon, "gpu", "cpu")
    with pytest.raises(SlurmSilent, match="no partition fast"):
        check(daemon, tmp_path, partition="fast")
