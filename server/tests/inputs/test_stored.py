"""Paths below the data roots and checkpoints of other jobs, as they lie on the storage."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.tests.ledger.builders import open_ledger, submit, take
from starforge.contract.ids import JobId
from starforge.runner.checkpoints import commit
from starforge_console.assembly.layout import StorageLayout
from starforge_console.domain.inputs import CheckpointInput, InputFault, PathInput
from starforge_console.inputs.stored import StoredInputs
from starforge_console.ledger.database import Database


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Database]:
    with open_ledger(tmp_path) as opened:
        yield opened


@pytest.fixture
def stored(tmp_path: Path, ledger: Database) -> StoredInputs:
    (tmp_path / "data" / "v2").mkdir(parents=True)
    return StoredInputs(StorageLayout(tmp_path / "storage"), [tmp_path / "data", tmp_path / "more"], ledger)


def code(found: object) -> str:
    assert isinstance(found, InputFault), found
    return found.code


def test_a_path_below_a_root_is_found_also_through_links_that_stay_below(stored: StoredInputs, tmp_path: Path) -> None:
    (tmp_path / "data" / "latest").symlink_to(tmp_path / "data" / "v2")
    for name in ("v2", "latest"):
        path = str(tmp_path / "data" / name)
        assert stored.find_path(path) == PathInput(path=path, root=str(tmp_path / "data"))


def test_of_roots_in_one_another_the_closest_is_taken(ledger: Database, tmp_path: Path) -> None:
    inner = tmp_path / "data" / "inner"
    (inner / "set").mkdir(parents=True)
    stored = StoredInputs(StorageLayout(tmp_path / "storage"), [tmp_path / "data", inner], ledger)
    found = stored.find_path(str(inner / "set"))
    assert found == PathInput(path=str(inner / "set"), root=str(inner))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("/etc/passwd", "input_outside"),
        ("data/../../etc", "input_outside"),
        ("data/gone", "input_not_there"),
        ("data/out", "input_outside"),
        ("data/out/passwd", "input_outside"),
        ("data/loop", "input_not_there"),
        ("data-too/x", "input_outside"),
        ("more/x", "input_root_away"),
    ],
)
def test_what_no_job_may_read_is_refused_with_its_own_code(
    stored: StoredInputs, tmp_path: Path, text: str, wanted: str
) -> None:
    (tmp_path / "data" / "out").symlink_to("/etc")
    (tmp_path / "data" / "loop").symlink_to("loop")
    (tmp_path / "data-too" / "x").mkdir(parents=True)
    path = text if text.startswith("/") else f"{tmp_path}/{text}"
    assert code(stored.find_path(path)) == wanted


def test_the_columns_of_a_data_file_are_told_and_nothing_else_is_opened(stored: StoredInputs, tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "a.jsonl").write_text('{"prompt": "x", "answer": "y"}\n')
    (data / "b.jsonl").symlink_to("a.jsonl")
    os.mkfifo(data / "c.jsonl")

    def columns(name: str) -> object:
        found = stored.find_path(str(data / name))
        assert isinstance(found, PathInput)
        return found.columns

    assert columns("a.jsonl") == columns("b.jsonl") == {"prompt", "answer"}
    assert columns("c.jsonl") is None
    assert columns("v2") is None


def begin(ledger: Database) -> JobId:
    """A job with one attempt."""
    job = ledger.write_now(submit)
    ledger.write_now(lambda c: take(c, job))
    return job


def keep(tmp_path: Path, job: JobId, step: int, number: int = 1) -> Path:
    root = StorageLayout(tmp_path / "storage").attempt_number(job, number).checkpoints
    folder = root / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    (folder / "weights").write_bytes(b"w" * step)
    commit(str(folder), step)
    return folder


def test_the_newest_committed_checkpoint_is_taken_and_a_step_where_one_is_named(
    stored: StoredInputs, ledger: Database, tmp_path: Path
) -> None:
    job = begin(ledger)
    for step in (5, 20, 10):
        keep(tmp_path, job, step)
    (StorageLayout(tmp_path / "storage").attempt_number(job, 1).checkpoints / "checkpoint-30").mkdir()
    newest = CheckpointInput(job=job, attempt=1, step=20, folder="checkpoint-20")
    assert stored.find_checkpoint(f"run/{job}/checkpoint") == newest
    named = CheckpointInput(job=job, attempt=1, step=5, folder="checkpoint-5")
    assert stored.find_checkpoint(f"run/{job}/checkpoint@step=5") == named


def test_a_checkpoint_that_was_damaged_is_passed_over(stored: StoredInputs, ledger: Database, tmp_path: Path) -> None:
    job = begin(ledger)
    keep(tmp_path, job, 5)
    (keep(tmp_path, job, 10) / "weights").write_bytes(b"other")
    found = stored.find_checkpoint(f"run/{job}/checkpoint")
    assert isinstance(found, CheckpointInput)
    assert found.step == 5


def test_what_is_not_there_is_told_with_what_is(stored: StoredInputs, ledger: Database, tmp_path: Path) -> None:
    job = begin(ledger)
    assert code(stored.find_checkpoint("run/j234567abc/checkpoint")) == "checkpoint_job_unknown"
    assert code(stored.find_checkpoint(f"run/{job}/checkpoint")) == "checkpoint_missing"
    keep(tmp_path, job, 5)
    missing = stored.find_checkpoint(f"run/{job}/checkpoint@step=6")
    assert isinstance(missing, InputFault)
    assert (missing.code, missing.why) == ("checkpoint_missing", "committed are 5")


@pytest.mark.parametrize(
    ("names", "is_adapter"),
    [
        (["config.json", "model-00001-of-00002.safetensors"], False),
        (["adapter_config.json", "adapter_model.safetensors", "optimizer.pt"], True),
        (["adapter_config.json", "adapter_model.safetensors", "pytorch_model.bin"], False),
    ],
)
def test_an_adapter_is_told_from_a_whole_model(
    stored: StoredInputs, ledger: Database, tmp_path: Path, names: list[str], *, is_adapter: bool
) -> None:
    job = begin(ledger)
    folder = StorageLayout(tmp_path / "storage").attempt_number(job, 1).checkpoints / "checkpoint-5"
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).write_bytes(b"1")
    commit(str(folder), 5)
    found = stored.find_checkpoint(f"run/{job}/checkpoint")
    assert isinstance(found, CheckpointInput)
    assert stored.is_adapter(found) is is_adapter


def test_a_link_that_a_job_laid_shows_nothing_of_the_host(
    stored: StoredInputs, ledger: Database, tmp_path: Path
) -> None:
    job, other = begin(ledger), begin(ledger)
    there = keep(tmp_path, other, 9)
    root = StorageLayout(tmp_path / "storage").attempt_number(job, 1).checkpoints
    root.mkdir(parents=True)
    (root / "checkpoint-9").symlink_to(there)
    assert code(stored.find_checkpoint(f"run/{job}/checkpoint@step=9")) == "checkpoint_missing"
