"""What jobs read, end to end: a model from a hub, data below a root, a checkpoint of another job, and who waits."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.support.console import ConsoleProcess, console_process, wait_for
from e2e.support.engines import PrivateEngine
from e2e.support.hub import COMMIT, HubServer, Repo, serve_hub
from e2e.support.projects import make_experiment

pytestmark = pytest.mark.engine

TOKEN = "hf_" + "s" * 30
WEIGHTS = os.urandom(400_000)
READS = """
cat "$FORGE_MODEL/config.json"; wc -c < "$FORGE_MODEL/weights.bin"
test -n "$FORGE_TRAIN_DATA" && cat "$FORGE_TRAIN_DATA"
env | grep -c hf_ssss || true
echo "offline $HF_HUB_OFFLINE"
touch "$FORGE_MODEL/written" 2>/dev/null && echo "the model can be written"
exit 0
"""
WRITES = """
apart="$(dirname "$FORGE_TRAIN_DATA")/apart"
cat "$apart/line"
for place in "$apart" "$apart/deep"; do touch "$place/written" 2>/dev/null && echo "$place can be written"; done
exit 0
"""
COMMITS = """
if test -n "$FORGE_INIT_FROM"; then echo "starts from $(cat "$FORGE_INIT_FROM/w.json")"; exit 0; fi
python3 - <<'PY'
import os, pathlib
from starforge import report
report.init(hparams={})
folder = pathlib.Path(os.environ["FORGE_CKPT_DIR"], "step-3"); folder.mkdir()
(folder / "w.json").write_text("[3]")
report.commit_checkpoint(3, str(folder))
report.finish()
PY
"""


@pytest.fixture
def hub() -> Iterator[HubServer]:
    repo = Repo({"config.json": b'{"hidden": 8}\n', "weights.bin": WEIGHTS}, token=TOKEN)
    with serve_hub(models_qwen_tiny=repo) as server:
        yield server


@pytest.fixture
def supplied(machine: PrivateEngine, folder: Path, hub: HubServer) -> Iterator[ConsoleProcess]:
    settings = {"FORGE_HF_ENDPOINT": hub.endpoint, "FORGE_HF_TOKEN": TOKEN}
    with console_process(folder, machine.socket_path, settings) as running:
        yield running


def test_a_model_is_fetched_once_and_read_offline_beside_data_below_a_root(
    supplied: ConsoleProcess, image: str, hub: HubServer
) -> None:
    probe = make_experiment(supplied, image, READS)
    data = supplied.storage / "datasets" / "wiki.txt"
    data.parent.mkdir()
    data.write_text("a line of data\n")
    options = ("--model", "hf://qwen/tiny", "--train-data", str(data))
    jobs = [probe.submit(*options) for _ in range(2)]
    for job in jobs:
        detail = probe.wait_end(job)
        assert detail["job"]["state"] == "SUCCEEDED", detail
        said = probe.log(job)
        assert '{"hidden": 8}\n400000\na line of data\n0\noffline 1\n' in said
        assert "can be written" not in said
        assert {one["member"]: one["version"] for one in detail["inputs"]} == {"model": COMMIT, "data.train": None}
    assert len(hub.downloads("weights.bin")) == 1
    shown = supplied.sf("job", "show", jobs[0], cwd=probe.project).stdout
    assert f"hf://qwen/tiny@main, commit {COMMIT[:12]}" in shown
    assert TOKEN not in supplied.read_log() + shown


def test_what_is_mounted_below_a_data_root_is_read_and_never_written(
    supplied: ConsoleProcess, image: str, machine: PrivateEngine
) -> None:
    probe = make_experiment(supplied, image, WRITES)
    apart = supplied.storage / "datasets" / "apart"
    apart.mkdir(parents=True)
    data = apart.parent / "wiki.txt"
    data.write_text("a line of data\n")
    for place in (apart, apart / "deep"):
        machine.run("mkdir", "-p", str(place))  # below what was mounted just now nothing is
        machine.run("mount", "-t", "tmpfs", "-o", "mode=0777", "none", str(place))
    machine.run("sh", "-c", f"echo apart > '{apart}/line'")
    try:
        job = probe.submit("--train-data", str(data))
        assert probe.wait_end(job)["job"]["state"] == "SUCCEEDED"
    finally:
        for place in (apart / "deep", apart):
            machine.uncover(place)
    assert probe.log(job) == "apart\n"


def test_a_fetch_goes_on_over_a_killed_console_and_the_note_says_how_far_it_is(
    supplied: ConsoleProcess, image: str, hub: HubServer
) -> None:
    probe = make_experiment(supplied, image, READS)
    hub.held.add("weights.bin")
    job = probe.submit("--model", "hf://qwen/tiny")
    wait_for(lambda: "KiB of 390.6 KiB" in probe.detail(job)["job"]["note"], "the note")
    supplied.kill()
    hub.held.clear()
    supplied.start()
    assert probe.wait_end(job)["job"]["state"] == "SUCCEEDED"
    assert hub.downloads("weights.bin") == [None, "bytes=196608-"]


def test_what_the_hub_refuses_is_refused_at_once_and_no_job_is_made(
    supplied: ConsoleProcess, image: str, hub: HubServer
) -> None:
    probe = make_experiment(supplied, image, READS)
    hub.repos["models/qwen/tiny"].gated = True
    said = probe.refused("--model", "hf://qwen/tiny", "--train-data", "/etc/passwd")
    assert "is gated" in said
    assert "below none of the folders that jobs may read" in said
    assert supplied.get("/api/v1/jobs", probe.token)["items"] == []


def test_a_job_starts_from_the_checkpoint_of_another_and_waits_for_a_quota(
    supplied: ConsoleProcess, image: str
) -> None:
    probe = make_experiment(supplied, image, COMMITS)
    first = probe.submit()
    probe.wait_end(first)
    supplied.admin("quota", "set", "--user", "ada", "--jobs", "0")
    assert "never lets this start" in probe.refused()
    supplied.admin("quota", "set", "--user", "ada", "--jobs", "1")
    second = probe.submit("--init-from", f"run/{first}/checkpoint")
    assert probe.wait_end(second)["job"]["state"] == "SUCCEEDED"
    assert "starts from [3]" in probe.log(second)
