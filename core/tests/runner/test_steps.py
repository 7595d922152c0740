"""Steps beside the job: what fails or hangs is noted once and holds nobody up. And who sent a signal."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.tests.runner.support.attempt import until
from starforge.runner.senders import decide_is_inside, is_descendant, is_from_job
from starforge.runner.spool import Spool
from starforge.runner.steps import Repeater, Steps


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(str(tmp_path / "spool"), [])


@pytest.fixture
def held() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def list_notes(spool: Spool) -> list[str]:
    return [json.loads(line)["message"] for line in Path(spool.streams["events"].path).read_bytes().splitlines()]


def fail() -> int:
    return fail()


def test_a_step_that_fails_gives_the_other_value_and_one_note(spool: Spool) -> None:
    steps = Steps(spool)
    assert [steps.attend("falling", fail, 7), steps.bound("falling", fail, 8, 5)] == [7, 8]
    assert len(list_notes(spool)) == 1
    assert list_notes(spool)[0].startswith("falling failed: RecursionError")


def test_a_step_that_hangs_is_left_alone(spool: Spool, held: threading.Event) -> None:
    assert Steps(spool).bound("waiting", held.wait, otherwise=False, patience_s=0.05) is False
    assert list_notes(spool) == ["waiting was not over after 0 s: the storage is slow or too full"]


def test_a_repeater_does_it_once_more_at_its_end(spool: Spool) -> None:
    seen: list[bool] = []
    repeater = Repeater("seeing", seen.append, 60, Steps(spool))
    assert repeater.end(5)
    assert seen == [True]


def test_asking_waits_for_a_whole_new_look(spool: Spool) -> None:
    seen: list[bool] = []
    repeater = Repeater("seeing", seen.append, 60, Steps(spool))
    repeater.ask(5)
    assert seen == [False]
    assert repeater.end(5)


def test_a_repeater_that_hangs_holds_nobody_up(spool: Spool, held: threading.Event) -> None:
    def wait(_: bool) -> None:  # noqa: FBT001 - what a Repeater tells
        held.wait()

    repeater = Repeater("waiting", wait, 60, Steps(spool))
    began = time.monotonic()
    repeater.ask(0.05)
    assert repeater.end(0.05) is False
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("pid", "code", "owns_namespace", "inside"),
    [
        (0, 0, True, False),
        (1, 0, True, False),
        (0, 0, False, False),
        (17, 0, True, True),
        (17, -6, True, True),
        (17, 0, False, None),
        (0, -1, False, True),
        (0, 0x80, True, False),
    ],
    ids=["outside", "init", "outside of a shared one", "job", "thread", "unknown", "made-up id", "kernel"],
)
def test_a_sender_is_judged_by_its_id(pid: int, code: int, owns_namespace: bool, inside: bool | None) -> None:  # noqa: FBT001 - columns
    assert decide_is_inside(pid, code, 5, owns_namespace=owns_namespace) is inside


def test_descendants_are_known_and_others_are_not() -> None:
    # One write each: what two processes print comes in pieces where output is not buffered.
    code = "import os, time; os.fork(); os.write(1, b'%d\\n' % os.getpid()); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True) as child:
        assert child.stdout is not None
        try:
            pids = [int(child.stdout.readline()), int(child.stdout.readline())]
            assert [is_descendant(pid, os.getpid()) for pid in pids] == [True, True]
            assert all(is_from_job(pid, 0) for pid in pids)
            assert not is_descendant(os.getppid(), os.getpid())
            assert not is_from_job(os.getppid(), 0)
        finally:
            os.killpg(child.pid, 9)
    until(lambda: not is_descendant(pids[0], os.getpid()), "nobody has the id")
