"""The storage's disk is full while a job writes: it ends in clear words, nothing else is lost, and others run again."""

import hashlib
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from e2e.badinput.yard import GPU_LABEL, SCRIPT, Yard, add, pack, write_sound
from e2e.support.console import wait_for

pytestmark = pytest.mark.engine

WORDS: Final = "No space left on device"
FILL: Final = 'echo filling; head -c 1G /dev/zero > "$FORGE_OUT_DIR/fill"'


@pytest.fixture(scope="module")
def settings(disk: Path) -> dict[str, str]:
    return {"FORGE_STORAGE_ROOT": str(disk)}


@pytest.fixture(scope="module")
def earlier(shared_yard: Yard) -> str:
    """A job that ended while there was room; the sound workspace is there from then on."""
    shared_yard.upload(write_sound)
    job, detail = shared_yard.run('echo before; echo kept > "$FORGE_OUT_DIR/kept"')
    assert detail["job"]["state"] == "SUCCEEDED"
    return job


@pytest.fixture
def filled(yard: Yard, earlier: str) -> Iterator[str]:
    """A job that has filled the disk; afterwards there is room, and what was there before is whole."""
    job, _ = yard.run(FILL)
    yield job
    make_room(yard, job)
    assert (yard.out(earlier) / "kept").read_text() == "kept\n"
    assert yard.probe.log(earlier) == "before\n"


def make_room(yard: Yard, job: str) -> None:
    (yard.out(job) / "fill").unlink(missing_ok=True)


def test_a_job_that_fills_the_disk_is_told_so_and_its_gpus_are_free(yard: Yard, filled: str) -> None:
    detail = yard.probe.detail(filled)
    assert (detail["job"]["state"], detail["job"]["reason"]) == ("FAILED", "exited_nonzero")
    assert detail["attempts"][0]["exit_code"] == 1
    told = [event["note"] for event in detail["events"] if event["kind"] == "timeline"]
    assert any(WORDS in note for note in told), told
    filling, refused, *_ = yard.probe.log(filled).splitlines()
    assert filling == "filling"
    assert WORDS in refused
    assert (yard.out(filled) / "fill").stat().st_size > 0
    wait_for(lambda: not yard.machine.engine.list_containers(GPU_LABEL), "the GPUs to be free", 20)


def test_a_job_whose_turn_comes_while_the_disk_is_full_waits_and_runs_once_there_is_room(
    yard: Yard, filled: str
) -> None:
    job = yard.submit(yard.upload(write_sound))
    wait_for(lambda: WORDS in yard.probe.detail(job)["job"]["note"], "the reason to be shown", 20)
    assert yard.probe.state(job) == "QUEUED"
    make_room(yard, filled)
    assert yard.probe.wait_end(job, 90)["job"]["state"] == "SUCCEEDED"
    assert yard.probe.log(job) == "sound\n"


def test_a_workspace_that_does_not_fit_is_refused_in_words_and_leaves_nothing(yard: Yard, filled: str) -> None:
    def write(tar: tarfile.TarFile) -> None:
        add(tar, SCRIPT, b"echo sound\n")
        add(tar, "large", filled.encode() * (1 << 20))

    content = pack(write)
    digest = "sha256:" + hashlib.sha256(content).hexdigest()
    answer = yard.api.call("PUT", f"/api/v1/blobs/{digest}", content)
    assert (answer.status, answer.code) == (503, "storage_refused")
    assert WORDS in answer.words
    assert yard.kept_of_an_upload(digest) == []
