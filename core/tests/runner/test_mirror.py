"""A checkpoint that a framework finds among its own: links to an older attempt's, never that attempt's files."""

import shutil
import sys
from pathlib import Path

import pytest

from core.tests.runner.support.attempt import Attempt
from starforge.contract import capsule as contract
from starforge.runner.checkpoints import FolderWatch, commit, find_newest
from starforge.runner.endings import Refusal
from starforge.runner.mirror import mirror_checkpoint

STEP = "step_@FORGE_RESUME_STEP@"
FOLDERS = contract.CheckpointRule("folders", "step_*", ("weights/*",))
PAIR = contract.ResumeMirror(
    "_actor/global_step5",
    {"_actor/latest": "global_step5", "_critic/latest": "global_step5"},
    ("_critic/global_step5",),
)


def write(folder: Path, text: str = "old") -> Path:
    (folder / "weights").mkdir(parents=True)
    (folder / "info.json").write_text(text)
    (folder / "weights" / "a.pt").write_text(text)
    return folder


def test_the_mirror_holds_the_files_as_links_and_no_manifest(tmp_path: Path) -> None:
    old, ckpt = write(tmp_path / "1" / "step_5"), tmp_path / "2"
    held = mirror_checkpoint(contract.ResumeMirror("step_5", {"latest": "step_5"}), commit(str(old), 5), str(ckpt))

    new = ckpt / "step_5"
    assert [link.readlink() for link in (new / "info.json", new / "weights" / "a.pt")] == [
        old / "info.json",
        old / "weights" / "a.pt",
    ]
    assert not (new / "weights").is_symlink()
    assert not (new / contract.CHECKPOINT_MANIFEST).exists()
    assert (ckpt / "latest").read_text() == "step_5"
    assert [name for name, _, _ in held[str(new)]] == ["info.json", "weights/a.pt"]


def test_what_the_framework_removes_stays_with_the_older_attempt(tmp_path: Path) -> None:
    old, ckpt = write(tmp_path / "1" / "step_5"), tmp_path / "2"
    mark = commit(str(old), 5)
    mirror_checkpoint(contract.ResumeMirror("step_5"), mark, str(ckpt))

    shutil.rmtree(ckpt / "step_5")
    assert find_newest([str(ckpt), str(tmp_path / "1")]) == (mark, [])


def test_a_mirror_is_committed_once_nothing_of_it_is_a_link_any_more(tmp_path: Path) -> None:
    old, ckpt = write(tmp_path / "1" / "step_5"), tmp_path / "2"
    held = mirror_checkpoint(contract.ResumeMirror("step_5"), commit(str(old), 5), str(ckpt))
    watch = FolderWatch(FOLDERS, str(ckpt), held)
    assert watch.commit_complete(is_final=True) == []

    (ckpt / "step_5" / "info.json").unlink()
    assert watch.commit_complete(is_final=True) == []
    shutil.rmtree(ckpt / "step_5")
    write(ckpt / "step_5", "new")
    write(ckpt / "step_6", "new")
    assert [mark.step for mark in watch.commit_complete(is_final=True)] == [5, 6]


def test_what_belongs_together_is_mirrored_together(tmp_path: Path) -> None:
    root, ckpt = tmp_path / "1", tmp_path / "2"
    mark = commit(str(write(root / "_actor" / "global_step5")), 5)
    critic = write(root / "_critic" / "global_step5")
    mirror_checkpoint(PAIR, mark, str(ckpt))

    assert (ckpt / "_critic" / "global_step5" / "info.json").readlink() == critic / "info.json"
    assert [(ckpt / part / "latest").read_text() for part in ("_actor", "_critic")] == ["global_step5"] * 2


def test_half_of_what_belongs_together_is_refused(tmp_path: Path) -> None:
    mark = commit(str(write(tmp_path / "1" / "_actor" / "global_step5")), 5)
    with pytest.raises(Refusal, match="_critic/global_step5 is not there"):
        mirror_checkpoint(PAIR, mark, str(tmp_path / "2"))


def test_a_checkpoint_of_the_same_attempt_stays_as_it_is(tmp_path: Path) -> None:
    own = write(tmp_path / "step_5")
    mirror = contract.ResumeMirror("step_5", {"latest": "step_5"})
    assert mirror_checkpoint(mirror, commit(str(own), 5), str(tmp_path)) == {}
    assert not (own / "info.json").is_symlink()
    assert (tmp_path / "latest").read_text() == "step_5"


def test_it_can_be_made_again_but_not_over_something_else(tmp_path: Path) -> None:
    mark, ckpt = commit(str(write(tmp_path / "1" / "step_5")), 5), tmp_path / "2"
    for _ in range(2):
        mirror_checkpoint(contract.ResumeMirror("step_5"), mark, str(ckpt))
    (ckpt / "step_5" / "info.json").unlink()
    (ckpt / "step_5" / "info.json").write_text("another's")
    with pytest.raises(Refusal, match="cannot be mirrored: File exists"):
        mirror_checkpoint(contract.ResumeMirror("step_5"), mark, str(ckpt))


@pytest.mark.parametrize(
    ("mirror", "words"),
    [
        (contract.ResumeMirror("step_6"), "does not lie where the plan looks for it"),
        (contract.ResumeMirror("step_5", {"../x": ""}), "outside of the checkpoint directory"),
    ],
)
def test_a_plan_that_names_other_places_is_refused(tmp_path: Path, mirror: contract.ResumeMirror, words: str) -> None:
    mark = commit(str(write(tmp_path / "1" / "step_5")), 5)
    with pytest.raises(Refusal, match=words):
        mirror_checkpoint(mirror, mark, str(tmp_path / "2"))


def test_a_job_finds_the_mirror_and_commits_what_it_adds(attempt: Attempt, tmp_path: Path) -> None:
    old = write(tmp_path / "older" / "step_5")
    commit(str(old), 5)
    job = """
import os, pathlib
ckpt = pathlib.Path(os.environ["FORGE_CKPT_DIR"])
print((ckpt / "latest").read_text(), (ckpt / "step_5" / "info.json").read_text(), flush=True)
(ckpt / "step_6" / "weights").mkdir(parents=True)
(ckpt / "step_6" / "weights" / "a.pt").write_text("new")
"""
    plan = contract.Plan(argv=(), checkpoint=FOLDERS, resume_mirror=contract.ResumeMirror(STEP, {"latest": STEP}))
    attempt.prepare(sys.executable, "-c", job, plan=plan, resume_from=(str(tmp_path / "older"),))

    assert attempt.run() == 0, attempt.stderr
    assert attempt.log() == b"step_5 old\n"
    assert [event["path"] for event in attempt.events("checkpoint")] == ["step_6"]
    assert attempt.record().checkpoint == contract.CheckpointMark(6, "ckpt/step_6")
