"""Jobs that keep their own folders from the runner: nothing vanishes without a word, and the end is still recorded."""

import sys
from pathlib import Path

import pytest

from core.tests.runner.conftest import TOKEN
from core.tests.runner.support.attempt import Attempt, find_owner_prefix
from core.tests.runner.support.ingest import Ingest
from starforge.contract import capsule as contract


@pytest.fixture
def owned(attempt: Attempt) -> Attempt:
    attempt.prefix = find_owner_prefix()
    return attempt


def list_notes(attempt: Attempt, code: str) -> list[str]:
    return [note["message"] for note in attempt.events("note") if note["code"] == code]


@pytest.mark.parametrize("mode", ["0", "500", "111"])
def test_a_job_that_closes_its_own_folder_is_recorded_all_the_same(owned: Attempt, mode: str) -> None:
    script = f'chmod {mode} "$(dirname "$FORGE_CKPT_DIR")"; exit 0'
    assert owned.prepare("bash", "-c", script).run() == 0, owned.stderr
    assert (owned.record().code, owned.record().started_at is not None) == (0, True)


UNWRITABLE = """
import os, shutil
root = os.path.dirname(os.environ["FORGE_CKPT_DIR"])
shutil.rmtree(root, ignore_errors=True)
raise SystemExit({code})
"""


@pytest.mark.parametrize(("code", "seen"), [(0, contract.EXIT_UNRECORDED), (7, 7)])
def test_a_job_that_ends_well_and_takes_its_records_place_away_has_not_ended_well(
    owned: Attempt, ingest: Ingest, code: int, seen: int
) -> None:
    owned.secret("ingest-token", TOKEN)
    owned.python(UNWRITABLE.format(code=code), ingest=contract.Ingest(ingest.url))
    assert owned.run() == seen, owned.stderr
    assert b"the exit record cannot be written: " in owned.stderr
    assert [record["code"] for record in ingest.exits] == [seen]


def test_a_record_that_the_storage_refuses_is_not_held_against_the_job(owned: Attempt) -> None:
    owned.prefix = ("prlimit", "--fsize=200:200")  # files of the attempt hold no more, as on a disk that is full
    assert owned.prepare("true").run() == 0
    assert b"the exit record cannot be written: " in owned.stderr
    assert not (owned.root / contract.EXIT_FILE).exists()


@pytest.mark.parametrize(("folder", "name"), [("FORGE_OUT_DIR", "out"), ("FORGE_CKPT_DIR", "checkpoints")])
def test_a_folder_that_may_not_be_listed_is_told(owned: Attempt, folder: str, name: str) -> None:
    script = f'echo x > "${folder}/model"; chmod 000 "${folder}"'
    assert owned.prepare("bash", "-c", script).run() == 0
    (note,) = list_notes(owned, "unlisted")
    assert note == f"{name} cannot be listed whole (.: Permission denied): what lies there is not known"
    assert list_notes(owned, "many_artifacts") == []
    assert (owned.root / folder.removeprefix("FORGE_").removesuffix("_DIR").lower()).stat().st_mode & 0o777 == 0


def test_a_checkpoint_that_may_not_be_listed_is_told_and_not_committed(owned: Attempt) -> None:
    script = 'mkdir "$FORGE_CKPT_DIR/checkpoint-1"; chmod 000 "$FORGE_CKPT_DIR/checkpoint-1"'
    rule = contract.CheckpointRule("folders", "checkpoint-*", ("a",))
    assert owned.prepare("bash", "-c", script, plan=contract.Plan(argv=(), checkpoint=rule)).run() == 0
    (failed,) = list_notes(owned, "step_failed")
    assert "ckpt/checkpoint-1 cannot be listed: .: Permission denied" in failed
    assert owned.record().checkpoint is None


def test_older_checkpoints_that_may_not_be_listed_are_told_before_the_start(owned: Attempt, tmp_path: Path) -> None:
    older = tmp_path / "older"
    older.mkdir(mode=0o000)
    assert owned.prepare("true", resume_from=(str(older),)).run() == 0
    (note,) = list_notes(owned, "checkpoint_damaged")
    assert note == f"checkpoints below {older} cannot be listed: .: Permission denied"
    older.chmod(0o700)


def test_an_output_whose_name_is_no_utf_8_is_named_and_the_others_are_listed(attempt: Attempt) -> None:
    code = "import os; os.chdir(os.environ['FORGE_OUT_DIR']); open(b'\\xe9.pt', 'w'); open('fine.pt', 'w')"
    assert attempt.python(code).run() == 0
    assert [event["path"] for event in attempt.events("artifact")] == ["fine.pt"]
    (note,) = list_notes(attempt, "output_names")
    assert note.startswith("1 outputs are kept and not listed")
    assert "(\\xe9.pt)" in note


def test_a_checkpoint_whose_name_is_no_utf_8_leaves_a_record_that_can_be_read(attempt: Attempt) -> None:
    code = "import os; os.chdir(os.environ['FORGE_CKPT_DIR']); os.mkdir(b'\\xe9-1'); open(b'\\xe9-1/a', 'w')"
    rule = contract.CheckpointRule("folders", "*-*", ("a",))
    assert attempt.python(code, plan=contract.Plan(argv=(), checkpoint=rule)).run() == 0
    checkpoint = attempt.record().checkpoint
    assert checkpoint is not None
    for text in (checkpoint.path, attempt.events("checkpoint")[0]["path"]):
        assert text.encode().endswith(b"\\xe9-1")


def test_a_count_that_is_not_known_is_not_made_up(attempt: Attempt) -> None:
    code = """
import os
os.chdir(os.environ["FORGE_OUT_DIR"])
for number in range(100_001):
    os.close(os.open(str(number), os.O_CREAT | os.O_WRONLY))
"""
    assert attempt.prepare(sys.executable, "-c", code).run(timeout_s=120) == 0
    (note,) = list_notes(attempt, "many_artifacts")
    assert note == "more than 100000 files in the output directory: the first 10000 are listed"
