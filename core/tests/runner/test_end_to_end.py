"""The runner as a container runs it: bootstrap, capsule, training process, spool and exit record."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from core.tests.runner.support.attempt import Attempt, find_interpreters, find_old_interpreters, pack
from core.tests.runner.support.ingest import Ingest
from starforge.contract import capsule as contract

JOB = """
import os, sys
print("to stdout", flush=True)
print("to stderr", file=sys.stderr, flush=True)
from starforge import report
report.init(hparams={"lr": 0.1})
for step in range(1, 4):
    report.log({"loss": 1 / step, "bad": float("nan")}, step=step)
report.samples([{"prompt": "a", "completion": "b"}])
open(os.path.join(os.environ["FORGE_OUT_DIR"], "model.bin"), "w").write("weights")
report.finish()
sys.exit(0)
"""


@pytest.mark.interpreters
@pytest.mark.parametrize("interpreter", find_interpreters())
def test_a_job_runs_and_is_recorded_on_every_python(attempt: Attempt, ingest: Ingest, interpreter: str) -> None:
    (attempt.root / "out").mkdir()
    attempt.python(JOB, interpreter, ingest=contract.Ingest(ingest.url))

    assert attempt.run(interpreter) == 0, attempt.stderr

    record = attempt.record()
    assert (record.code, record.complete, record.reason, record.desired) == (0, True, None, "run")
    assert attempt.log() == b"to stdout\nto stderr\n"
    assert attempt.stdout == b"to stdout\nto stderr\n"
    assert [(line["step"], line["values"]["bad"]) for line in attempt.metrics()] == [(1, "nan"), (2, "nan"), (3, "nan")]
    kinds = [event["kind"] for event in attempt.events() if event["kind"] != "usage"]
    assert kinds == ["workspace_ready", "started", "hparams", "samples", "finish", "artifact", "ended"]
    assert attempt.events("artifact")[0]["path"] == "model.bin"
    for name in contract.SPOOL_FILES:
        assert ingest.streams[name] == attempt.stream(name)
        assert record.offsets[name] == len(attempt.stream(name))
    assert ingest.exits == [record.to_json()]


@pytest.mark.interpreters
@pytest.mark.parametrize("interpreter", find_interpreters())
def test_what_enters_images_imports_without_site_packages(runner_archive: Path, interpreter: str) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(runner_archive)!r});"
        "import starforge; from starforge import report; import starforge.runner.main, starforge.runner.wire,"
        "starforge.runner.tensorboard; assert report.log({'a': 1}) is False"
    )
    ran = subprocess.run([interpreter, "-S", "-I", "-W", "error", "-c", code], capture_output=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, b"")


@pytest.mark.parametrize(
    "interpreter",
    find_old_interpreters() or [pytest.param("", marks=pytest.mark.skip("no Python older than 3.8 is installed here"))],
)
def test_an_image_whose_python_is_too_old_is_refused(attempt: Attempt, interpreter: str) -> None:
    attempt.prepare("true")

    assert attempt.run(interpreter) == contract.EXIT_NO_PYTHON
    assert b"needs Python 3.8 or newer" in attempt.stderr
    assert interpreter.encode() in attempt.stderr


def test_an_image_without_python_is_refused(attempt: Attempt, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "sha256sum", "id"):
        found = subprocess.run(["which", name], capture_output=True, text=True, check=True).stdout.strip()
        (tools / name).symlink_to(os.path.realpath(found))
    attempt.prepare("true").environment = {"PATH": str(tools), "FORGE_PYTHON": ""}

    assert attempt.run() == contract.EXIT_NO_PYTHON
    assert b"no Python on its PATH" in attempt.stderr


def test_an_image_without_sha256sum_still_notices_a_changed_capsule(attempt: Attempt, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "bash").symlink_to(os.path.realpath("/bin/bash"))
    attempt.prepare("true").environment = {"PATH": str(tools)}
    attempt.prepare(sys.executable, "-c", "print('ran')")
    assert attempt.run() == 0, attempt.stderr

    (attempt.capsule / contract.CAPSULE_FILE).write_text("{}")
    assert attempt.run() == contract.EXIT_CAPSULE_CHANGED


@pytest.mark.parametrize("name", [contract.CAPSULE_FILE, contract.RUNNER_FILE, contract.SUMS_FILE])
def test_a_changed_capsule_is_refused_before_anything_runs(attempt: Attempt, name: str) -> None:
    attempt.prepare("true")
    with (attempt.capsule / name).open("ab") as file:
        file.write(b" ")

    assert attempt.run() == contract.EXIT_CAPSULE_CHANGED
    assert b"the capsule was changed after it was prepared" in attempt.stderr
    assert not (attempt.root / "work").exists()


def test_the_runner_checks_the_capsule_itself(attempt: Attempt) -> None:
    attempt.prepare("true")
    (attempt.capsule / contract.CAPSULE_FILE).write_text("{}")
    command = [sys.executable, "-I", "-S", f"{contract.CAPSULE_MOUNT}/{contract.RUNNER_FILE}", "run"]
    ran = subprocess.run(command, cwd=attempt.root, capture_output=True, check=False)

    assert ran.returncode == contract.EXIT_CAPSULE_CHANGED
    assert attempt.record().reason == "capsule_changed"
    assert "capsule.json differs from its digest" in str(attempt.record().message)


def test_missing_modules_and_gpus_are_refused_in_one_sentence(attempt: Attempt) -> None:
    needs = contract.Requirements(
        python=">=3.8",
        modules=(contract.Requirement("pytest", "<1"), contract.Requirement("no-such-module", ">=2")),
        gpus=4096,
    )
    attempt.prepare("true", requirements=needs)

    assert attempt.run() == contract.EXIT_REQUIREMENTS
    record = attempt.record()
    assert record.reason == "requirements"
    assert f"needs pytest <1; this image has {pytest.__version__} at " in str(record.message)
    assert "needs no-such-module >=2; this image has no no-such-module" in str(record.message)
    assert "needs 4096 visible GPUs; this container sees" in str(record.message)
    assert str(record.message).encode() in attempt.stderr
    assert str(record.message).encode() in attempt.log()
    assert attempt.events("started") == []


def test_an_image_that_fits_is_taken(attempt: Attempt) -> None:
    needs = contract.Requirements(python=">=3.8,<4", modules=(contract.Requirement("pytest", ">=9"),), gpus=0)
    assert attempt.prepare("true", requirements=needs).run() == 0


def test_a_program_that_is_not_there_is_a_failed_start(attempt: Attempt) -> None:
    assert attempt.prepare("no-such-program").run() == 127
    assert attempt.record().reason == "start_failed"
    assert "'no-such-program' cannot be started" in str(attempt.record().message)


def test_the_job_finds_its_workspace_files_configuration_and_names(attempt: Attempt, tmp_path: Path) -> None:
    workspace = pack(tmp_path / "workspace.tar", {"train.sh": "cat config.yaml\n", "src/deep/a.py": "pass\n"})
    data = tmp_path / "data"
    data.mkdir()
    plan = contract.Plan(
        argv=(),
        env={"MY_DIR": "@FORGE_CKPT_DIR@/x"},
        files={"config.yaml": "output: @FORGE_OUT_DIR@\n"},
    )
    show = 'bash train.sh; ls src/deep input; cat "$FORGE_SPEC"; echo $MY_DIR $FORGE_ATTEMPT_NUMBER $PLATFORM $RESUME'
    members = {"workspace": workspace, "platform_env": {"PLATFORM": "yes"}, "inputs": {"input": str(data)}}
    assert attempt.prepare("bash", "-c", show, plan=plan, **members).run() == 0

    text = attempt.log().decode()
    assert f"output: {attempt.root}/out" in text
    assert "a.py" in text
    assert '"lr": 0.1' in text
    assert f"{attempt.root}/ckpt/x 1 yes" in text


@pytest.mark.parametrize(("nodes", "addresses"), [(1, ["127.0.0.1"]), (2, [])])
def test_torchrun_waits_for_its_workers_and_needs_no_name_for_a_single_node(
    attempt: Attempt, nodes: int, addresses: list[str]
) -> None:
    code = "import os; print(os.environ['TORCH_ELASTIC_SHUTDOWN_TIMEOUT'], os.environ.get('PET_LOCAL_ADDR', ''))"
    assert attempt.python(code, node_count=nodes).run() == 0
    assert attempt.log().decode().split() == ["1000000", *addresses]


def test_the_nodes_of_an_attempt_know_how_many_they_are_and_meet_at_the_leader(attempt: Attempt) -> None:
    names = ("PET_NNODES", "PET_NODE_RANK", "PET_MASTER_ADDR", "MASTER_ADDR", "FORGE_NODE_RANK", "FORGE_NODE_COUNT")
    attempt.environment = {"FORGE_LEADER_ADDR": "10.0.0.7"}
    assert attempt.python(f"import os; print(*[os.environ[one] for one in {names}])", node_count=3).run() == 0
    assert attempt.log().decode().split() == ["3", "0", "10.0.0.7", "10.0.0.7", "0", "3"]


def test_what_the_image_says_to_torchrun_is_left_to_it(attempt: Attempt) -> None:
    attempt.environment["PET_LOCAL_ADDR"] = "10.0.0.7"
    assert attempt.python("import os; print(os.environ['PET_LOCAL_ADDR'])").run() == 0
    assert attempt.log() == b"10.0.0.7\n"


def test_the_job_starts_in_the_plans_directory(attempt: Attempt, tmp_path: Path) -> None:
    workspace = pack(tmp_path / "workspace.tar", {"experiments/a/train.sh": "pwd\n"})
    plan = contract.Plan(argv=(), cwd="experiments/a")
    assert attempt.prepare("bash", "train.sh", plan=plan, workspace=workspace).run() == 0
    assert attempt.log().decode().strip() == str(attempt.root / contract.WORK_DIRECTORY / "experiments" / "a")


@pytest.mark.parametrize("plan", [contract.Plan(argv=(), cwd="../ckpt"), contract.Plan(argv=(), files={"../x": ""})])
def test_a_plan_that_leaves_the_work_directory_is_refused(attempt: Attempt, plan: contract.Plan) -> None:
    attempt.prepare("true", plan=plan).run()
    assert attempt.record().reason == "start_failed"
    assert "outside of the work directory" in str(attempt.record().message)


def test_an_exit_record_that_cannot_be_written_changes_no_code(attempt: Attempt) -> None:
    moves_away = f"mv '{attempt.root}' '{attempt.root}-moved'; exit 7"
    assert attempt.prepare("bash", "-c", moves_away).run() == 7
    assert b"the exit record cannot be written" in attempt.stderr


def test_a_workspace_that_is_not_the_packed_one_is_refused(attempt: Attempt, tmp_path: Path) -> None:
    workspace = pack(tmp_path / "workspace.tar", {"train.sh": "true\n"})
    (tmp_path / "workspace.tar").write_bytes(b"something else")

    assert attempt.prepare("true", workspace=workspace).run() == contract.EXIT_CAPSULE_CHANGED
    assert attempt.record().reason == "workspace"


def test_death_by_a_signal_is_128_and_its_number(attempt: Attempt) -> None:
    assert attempt.prepare("bash", "-c", "kill -SEGV $$").run() == 128 + 11
    assert (attempt.record().code, attempt.record().signal) == (139, 11)


@pytest.mark.parametrize("place_is_made", [False, True])
def test_another_node_waits_for_the_leaders_work_and_writes_its_own_stream(
    attempt: Attempt,
    place_is_made: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    attempt.prepare("bash", "-c", '[ -s "$FORGE_SPEC" ] && echo node $FORGE_NODE_RANK', node_count=2)
    if place_is_made:
        (attempt.root / contract.WORK_DIRECTORY).mkdir()
    attempt.environment = {"FORGE_NODE_RANK": "1"}
    follower = attempt.start()
    attempt.environment = {"FORGE_NODE_RANK": "0"}
    assert attempt.run() == 0, attempt.stderr
    follower.communicate(timeout=20)

    assert follower.returncode == 0
    assert attempt.log() == b"node 0\n"
    assert (attempt.root / "node-1" / "log.bin").read_bytes() == b"node 1\n"
    assert (attempt.root / "node-1" / "exit.json").exists()
