"""What a real job left is fetched, looked at, and let go by the collector: only what is over its time."""

import json
from pathlib import Path

import pytest

from e2e.support.console import ConsoleProcess, console_process, wait_for
from e2e.support.engines import PrivateEngine
from e2e.support.projects import make_experiment

pytestmark = pytest.mark.engine

TRAIN = """
python3 - <<'PY'
import os, pathlib
from starforge import report
for step in (10, 20, 30):
    report.log({"loss": 1.0 / step}, step=step)
    report.samples([{"prompt": "<b>" + str(step), "completion": "fine", "reward": step / 10}], step=step)
    folder = pathlib.Path(report.checkpoint_directory(step))
    (folder / "w.bin").write_bytes(b"w" * step)
    report.commit_checkpoint(step)
adapter = pathlib.Path(os.environ["FORGE_OUT_DIR"], "adapter"); adapter.mkdir()
(adapter / "model.bin").write_bytes(b"weights" * 1000)
(adapter / "outside").symlink_to("/etc")
print("trained", flush=True)
report.finish()
PY
"""
AT_ONCE = {
    "FORGE_RETENTION": "off",
    "FORGE_CONTAINER_RETENTION_S": "0",
    "FORGE_WORK_RETENTION_S": "0",
    "FORGE_LOG_RETENTION_S": "0",
    "FORGE_CHECKPOINT_RETENTION_S": "0",
    "FORGE_CHECKPOINTS_KEPT": "1",
}


def list_kinds(console: ConsoleProcess, *words: str) -> list[tuple[str, str]]:
    answer = json.loads(console.sf("admin", "gc", "--json", *words).stdout)
    return sorted((one["kind"], one["name"]) for one in answer["items"])


def test_what_a_job_left_is_fetched_and_goes_once_its_time_is_over(
    machine: PrivateEngine, folder: Path, image: str
) -> None:
    with console_process(folder, machine.socket_path, AT_ONCE) as console:
        probe = make_experiment(console, image, TRAIN)
        console.sf("submit", "probe", "--profile", "cpu", "--follow", cwd=probe.project)
        job = str(console.get("/api/v1/jobs", probe.token)["items"][0]["id"])
        probe.wait_end(job)

        console.sf("job", "get", job, "--to", str(folder / "got"))
        assert (folder / "got/out/adapter/model.bin").read_bytes() == b"weights" * 1000
        assert sorted(path.name for path in (folder / "got/out/adapter").iterdir()) == ["model.bin"]
        console.sf("job", "get", job, "checkpoint", "--to", str(folder / "got"))
        assert (folder / "got/step-30/w.bin").read_bytes() == b"w" * 30
        shown = json.loads(console.sf("job", "samples", job, "--step", "20", "--json").stdout)
        assert (shown["steps"], shown["rows"]) == (
            [10, 20, 30],
            [{"prompt": "<b>20", "completion": "fine", "reward": 2.0}],
        )

        console.sf("login", "--server", console.url, typed=console.token("--scopes", "read,submit,admin"))
        expected = [("checkpoint", "step-10"), ("checkpoint", "step-20"), ("log", ""), ("work", "")]
        wait_for(lambda: list_kinds(console) == expected or None, "everything to be over its time")
        run = console.storage / "runs" / job
        assert (run / "attempts/1/work").is_dir()
        assert list_kinds(console, "--apply") == expected
        assert not (run / "attempts/1/work").exists()
        assert not (run / "attempts/1/spool").exists()
        assert sorted(path.name for path in (run / "checkpoints/1/ckpt").iterdir()) == ["step-30"]
        assert (run / "out/adapter/model.bin").is_file()
        assert list_kinds(console, "--apply") == []

        detail = console.get(f"/api/v1/jobs/{job}", probe.token)
        assert detail["log"]["removed_at"] is not None
        notes = [event["note"] for event in detail["events"] if event["note"].startswith("retention removed")]
        assert len(notes) == 4
        console.sf("submit", "probe", "--profile", "cpu", "--init-from", f"run/{job}/checkpoint", cwd=probe.project)
        left = json.loads(console.sf("admin", "gc", "--json").stdout)["items"]
        assert [one for one in left if one["job"] == job] == []  # another job starts from it now
