"""Checkpoints: when one counts, which one is resumed from, and what a damaged one does."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from core.tests.runner.support.attempt import Attempt, until
from starforge.contract import capsule as contract
from starforge.runner.checkpoints import WHOLE_DIGEST_BYTES, FolderWatch, commit, find_committed, find_newest

FOLDERS = contract.CheckpointRule(
    "folders", "checkpoint-*", ("*.safetensors", "trainer_state.json", "!*incomplete.txt")
)


def write_folder(root: Path, step: int, *names: str) -> Path:
    folder = root / f"checkpoint-{step}"
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text(f"{name} of {step}")
    return folder


def test_a_folder_without_a_manifest_does_not_count(tmp_path: Path) -> None:
    write_folder(tmp_path, 10, "model.safetensors")
    assert find_newest([str(tmp_path)]) == (None, [])


def test_the_highest_step_of_the_newest_attempt_is_resumed_from(tmp_path: Path) -> None:
    for attempt, step in (("older", 90), ("newer", 20), ("newer", 30)):
        commit(str(write_folder(tmp_path / attempt, step, "model.safetensors")), step)

    mark, problems = find_newest([str(tmp_path / "empty"), str(tmp_path / "newer"), str(tmp_path / "older")])
    assert mark is not None
    assert (mark.step, problems) == (30, [])


@pytest.mark.parametrize("damage", ["changed", "cut", "removed"])
def test_a_damaged_checkpoint_is_passed_over_with_a_reason(tmp_path: Path, damage: str) -> None:
    commit(str(write_folder(tmp_path, 10, "model.safetensors")), 10)
    folder = write_folder(tmp_path, 20, "model.safetensors", "optimizer.pt")
    commit(str(folder), 20)
    victim = folder / "optimizer.pt"
    content = victim.read_bytes()
    victim.unlink()
    if damage != "removed":
        victim.write_bytes(content[:-1] + b"?" if damage == "changed" else content[:-1])

    mark, problems = find_newest([str(tmp_path)])
    assert mark is not None
    assert mark.step == 10
    assert len(problems) == 1
    assert "optimizer.pt" in problems[0]


def test_a_large_file_is_known_by_samples(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, 5)
    with (folder / "weights").open("wb") as file:
        file.truncate(WHOLE_DIGEST_BYTES + 1)
    commit(str(folder), 5)
    row = json.loads((folder / contract.CHECKPOINT_MANIFEST).read_text())["files"]["weights"]
    assert set(row) == {"bytes", "sampled_sha256"}

    with (folder / "weights").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"x")
    assert find_newest([str(tmp_path)])[0] is None


def test_a_folder_is_committed_once_it_is_whole_and_at_rest(tmp_path: Path) -> None:
    watch = FolderWatch(FOLDERS, str(tmp_path))
    folder = write_folder(tmp_path, 40, "model.safetensors")
    assert watch.commit_complete(is_final=False) == []  # trainer_state.json is missing
    write_folder(tmp_path, 40, "trainer_state.json")
    assert watch.commit_complete(is_final=False) == []  # it changed since the last look
    assert [mark.step for mark in watch.commit_complete(is_final=False)] == [40]
    assert watch.commit_complete(is_final=False) == []  # once
    assert [mark.path for mark in find_committed(str(tmp_path))] == [str(folder)]


def test_a_file_that_comes_after_the_commit_is_committed_too(tmp_path: Path) -> None:
    watch = FolderWatch(FOLDERS, str(tmp_path))
    write_folder(tmp_path, 40, "model.safetensors", "trainer_state.json")
    assert len(watch.commit_complete(is_final=False) + watch.commit_complete(is_final=False)) == 1
    folder = write_folder(tmp_path, 40, "optimizer.pt")
    assert [mark.step for mark in watch.commit_complete(is_final=True)] == [40]
    assert "optimizer.pt" in json.loads((folder / contract.CHECKPOINT_MANIFEST).read_text())["files"]


def test_a_folder_that_the_job_has_committed_is_not_committed_again(tmp_path: Path) -> None:
    watch = FolderWatch(FOLDERS, str(tmp_path))
    folder = write_folder(tmp_path, 40, "model.safetensors", "trainer_state.json")
    commit(str(folder), 40)
    assert watch.commit_complete(is_final=True) == []
    write_folder(tmp_path, 40, "optimizer.pt")
    assert [mark.step for mark in watch.commit_complete(is_final=True)] == [40]


def test_a_folder_marked_as_incomplete_is_not_committed_even_at_the_end(tmp_path: Path) -> None:
    write_folder(tmp_path, 40, "model.safetensors", "trainer_state.json", "checkpoint-is-incomplete.txt")
    assert FolderWatch(FOLDERS, str(tmp_path)).commit_complete(is_final=True) == []


def test_the_runner_commits_a_frameworks_folders_while_it_runs_and_at_its_end(attempt: Attempt) -> None:
    code = """
import os, time
def save(step):
    folder = os.path.join(os.environ["FORGE_CKPT_DIR"], "checkpoint-%d" % step)
    os.makedirs(folder)
    for name in ("model.safetensors", "trainer_state.json"):
        open(os.path.join(folder, name), "w").write("x")
save(10)
while not os.path.exists(os.path.join(os.environ["FORGE_CKPT_DIR"], "checkpoint-10", "starforge-checkpoint.json")):
    time.sleep(0.05)
save(20)
"""
    attempt.python(code, plan=contract.Plan(argv=(), checkpoint=FOLDERS))
    assert attempt.run() == 0
    assert [(event["step"], event["path"]) for event in attempt.events("checkpoint")] == [
        (10, "checkpoint-10"),
        (20, "checkpoint-20"),
    ]
    assert attempt.record().checkpoint == contract.CheckpointMark(20, "ckpt/checkpoint-20")


def test_a_later_attempt_goes_on_from_the_committed_checkpoint(attempt: Attempt, tmp_path: Path) -> None:
    older = tmp_path / "older"
    folder = write_folder(older, 30, "model.safetensors")
    commit(str(folder), 30)
    plan = contract.Plan(
        argv=(), resume=("--resume", contract.PLACE_RESUME), files={"c.yaml": "from: @FORGE_RESUME_FROM@"}
    )
    show = 'echo "$FORGE_RESUME_FROM" "$0" "$@"; cat c.yaml'
    attempt.prepare("bash", "-c", show, plan=plan, resume_from=(str(older),))

    assert attempt.run() == 0
    assert attempt.log().decode() == f"{folder} --resume {folder}\nfrom: {folder}"
    assert attempt.events("started")[0]["resumed_from"] == {"step": 30, "path": str(folder)}


def test_without_a_checkpoint_nothing_is_resumed(attempt: Attempt) -> None:
    plan = contract.Plan(argv=(), resume=("--resume", contract.PLACE_RESUME))
    attempt.prepare("bash", "-c", 'echo "${FORGE_RESUME_FROM-unset}" $#', plan=plan)
    assert attempt.run() == 0
    assert attempt.log() == b"unset 0\n"


def test_a_training_that_has_all_its_steps_is_not_started_again(attempt: Attempt, tmp_path: Path) -> None:
    commit(str(write_folder(tmp_path / "older", 80, "model.safetensors")), 80)
    plan = contract.Plan(argv=(), complete=contract.CompleteRule("steps", 80))
    attempt.prepare("bash", "-c", "echo one more step", plan=plan, resume_from=(str(tmp_path / "older"),))

    assert attempt.run() == 0
    assert (attempt.record().complete, attempt.record().reason) == (True, "already_complete")
    assert attempt.events("started") == []


def write_trainer_checkpoint(root: Path, step: int, state: object) -> contract.Plan:
    folder = write_folder(root, step, "model.safetensors")
    (folder / "trainer_state.json").write_text(state if isinstance(state, str) else json.dumps(state))
    commit(str(folder), step)
    return contract.Plan(argv=(), checkpoint=FOLDERS, complete=contract.CompleteRule("steps"))


def test_a_training_that_has_all_its_epochs_is_not_started_again(attempt: Attempt, tmp_path: Path) -> None:
    state = {"global_step": 81, "max_steps": 81, "epoch": 3.0, "num_train_epochs": 3, "log_history": []}
    plan = write_trainer_checkpoint(tmp_path / "older", 81, state)
    attempt.prepare("bash", "-c", "echo one more step", plan=plan, resume_from=(str(tmp_path / "older"),))

    assert attempt.run() == 0
    assert (attempt.record().complete, attempt.record().reason) == (True, "already_complete")
    assert "step 81 of 81" in attempt.events("note")[0]["message"]
    assert attempt.events("started") == []


@pytest.mark.parametrize(
    "state",
    [
        {"global_step": 80, "max_steps": 81},
        {"global_step": 79, "max_steps": 79},  # of another step than the folder
        {"global_step": 80, "max_steps": 0},
        {"global_step": 80, "max_steps": -1},
        {"global_step": 80, "max_steps": "80"},
        {"global_step": 80, "max_steps": True},
        {"global_step": 80},
        {"max_steps": 80},
        "[80]",
        "{",
        "[" * 100_000,
    ],
)
def test_a_training_of_which_the_total_is_not_known_or_not_reached_goes_on(
    attempt: Attempt, tmp_path: Path, state: object
) -> None:
    plan = write_trainer_checkpoint(tmp_path / "older", 80, state)
    attempt.prepare("echo", "on", plan=plan, resume_from=(str(tmp_path / "older"),))
    assert attempt.run() == 0
    assert attempt.log() == b"on\n"


def test_what_a_trainer_wrote_ends_no_job_that_says_by_itself_when_it_is_finished(
    attempt: Attempt, tmp_path: Path
) -> None:
    plan = write_trainer_checkpoint(tmp_path / "older", 80, {"global_step": 80, "max_steps": 80})
    plan = replace(plan, complete=contract.CompleteRule("finish"))
    attempt.prepare("echo", "on", plan=plan, resume_from=(str(tmp_path / "older"),))
    assert attempt.run() == 0
    assert attempt.log() == b"on\n"


def test_the_plans_total_goes_before_what_a_trainer_wrote(attempt: Attempt, tmp_path: Path) -> None:
    plan = write_trainer_checkpoint(tmp_path / "older", 80, {"global_step": 80, "max_steps": 80})
    plan = replace(plan, complete=contract.CompleteRule("steps", 90))
    attempt.prepare("echo", "on", plan=plan, resume_from=(str(tmp_path / "older"),))
    assert attempt.run() == 0
    assert attempt.log() == b"on\n"


def test_a_job_commits_its_own_checkpoints(attempt: Attempt) -> None:
    code = """
from starforge import report
folder = report.checkpoint_directory(7)
open(folder + "/state.pt", "w").write("state")
assert report.commit_checkpoint(7)
assert not report.commit_checkpoint(8)
assert not report.commit_checkpoint(9, "/tmp")
"""
    assert attempt.python(code).run() == 0, attempt.log()
    assert attempt.record().checkpoint == contract.CheckpointMark(7, "ckpt/step-7")
    assert [event["step"] for event in attempt.events("checkpoint")] == [7]
    until(lambda: find_newest([str(attempt.root / "ckpt")])[0], "a sound checkpoint")
