"""Two consoles on one engine, one ledger or one storage, and an engine or a storage that goes away under one."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from e2e.badinput.yard import GPU_LABEL, Yard, make_yard
from e2e.support.console import ConsoleProcess, console_process, find_free_port, wait_for
from e2e.support.engines import PrivateEngine
from e2e.support.projects import write_script

pytestmark = pytest.mark.engine

MARK = ".starforge-storage"
HOLD = 'while [ ! -e "$FORGE_OUT_DIR/go" ]; do sleep 0.1; done; echo done'
COUNT = 'echo x >> "$FORGE_OUT_DIR/starts"; '


LOOKS: Final = {"FORGE_RECONCILE_S": "2"}
"""What another console gives back, nobody tells: it is seen at the next look."""


@pytest.fixture(scope="module")
def settings() -> dict[str, str]:
    return LOOKS


@contextmanager
def unmounted(yard: Yard) -> Iterator[None]:
    """The storage as it is while its share is not mounted: the mark is not there."""
    mark = yard.console.storage / MARK
    mark.rename(mark.with_name("away"))
    try:
        yield
    finally:
        mark.with_name("away").rename(mark)


@contextmanager
def frozen(machine: PrivateEngine) -> Iterator[None]:
    """The engine while it hangs."""
    machine.freeze()
    try:
        yield
    finally:
        machine.thaw()


def note(yard: Yard, job: str) -> str:
    return str(yard.probe.detail(job)["job"]["note"])


def serve(console: ConsoleProcess, **settings: str) -> subprocess.CompletedProcess[str]:
    """Start one more console with these settings, which must end by itself."""
    ports = {"FORGE_LISTEN": f"127.0.0.1:{find_free_port()}", "FORGE_INGEST_LISTEN": f"127.0.0.1:{find_free_port()}"}
    program = Path(console.environment["PATH"].split(":")[0]) / "starforge-console"
    return subprocess.run(
        [program, "serve"],
        env=console.environment | ports | settings,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_two_consoles_never_put_two_jobs_on_one_gpu(yard: Yard, image: str, folder: Path) -> None:
    machine = yard.machine
    with ExitStack() as stack:
        other = make_yard(
            machine, stack.enter_context(console_process(folder / "other", machine.socket_path, LOOKS)), image
        )
        side_by_side = [(one, one.begin(HOLD)) for one in (yard, other)]
        for one, job in side_by_side:
            one.probe.wait_state(job, "RUNNING")
        assert len(set(list_held(machine))) == 2
        jobs = [(one, one.begin("sleep 1; echo done")) for _ in range(3) for one in (yard, other)]
        for one, job in side_by_side:
            (one.out(job) / "go").touch()

        def look() -> bool:
            held = list_held(machine)
            assert len(held) == len(set(held)), held
            return all(one.probe.state(job) == "SUCCEEDED" for one, job in [*side_by_side, *jobs])

        wait_for(look, "every job of both to run through", 90)
        for one, job in jobs:
            assert one.probe.log(job) == "done\n"
        other.check_nothing_is_held()


def list_held(machine: PrivateEngine) -> list[str]:
    """The GPUs of the containers that run, whosever they are."""
    running = machine.engine.list_containers(GPU_LABEL)
    return [one["Labels"][GPU_LABEL] for one in running if one["State"] == "running"]


def test_what_another_console_holds_is_waited_for_and_left_alone(yard: Yard, image: str, folder: Path) -> None:
    with console_process(folder / "stranger", yard.machine.socket_path, LOOKS) as console:
        stranger = make_yard(yard.machine, console, image)
        theirs = stranger.begin(HOLD, profile="any:2")
        stranger.probe.wait_state(theirs, "RUNNING")
        ours = yard.begin("echo ours")
        wait_for(lambda: "0 of 2 GPUs free" in note(yard, ours), "the reason to be shown", 20)
        assert yard.probe.state(ours) == "QUEUED"
        (stranger.out(theirs) / "go").touch()
        assert stranger.probe.wait_end(theirs)["job"]["state"] == "SUCCEEDED"
        assert yard.probe.wait_end(ours)["job"]["state"] == "SUCCEEDED"


def test_a_second_console_on_one_ledger_is_refused(unharmed: Yard) -> None:
    done = serve(unharmed.console)
    assert done.returncode != 0
    assert "FORGE_CONSOLE_STATE_DIR" in done.stderr or str(unharmed.console.folder / "state") in done.stderr
    assert "Traceback" not in done.stderr


def test_a_console_with_the_storage_of_another_is_refused(unharmed: Yard, folder: Path) -> None:
    storage = folder / "another"
    storage.mkdir()
    (storage / MARK).write_text("0123456789abcdef\n")
    unharmed.console.stop()
    try:
        done = serve(unharmed.console, FORGE_STORAGE_ROOT=str(storage))
    finally:
        unharmed.console.start()
    assert done.returncode != 0
    assert "not this console's storage" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_submission_while_the_storage_is_not_mounted_is_refused_and_writes_nothing_there(yard: Yard) -> None:
    write_script(yard.probe, "echo another workspace")
    before = yard.list_jobs()
    with unmounted(yard):
        files = sorted(yard.console.storage.rglob("*"))
        assert "storage not mounted" in yard.probe.refused()
        assert sorted(yard.console.storage.rglob("*")) == files
    assert yard.list_jobs() == before


def test_a_job_whose_turn_comes_while_the_storage_is_not_mounted_waits_and_says_so(yard: Yard) -> None:
    first = yard.begin(HOLD, profile="any:2")
    yard.probe.wait_state(first, "RUNNING")
    second = yard.begin(COUNT)
    with unmounted(yard):
        (yard.out(first) / "go").touch()
        wait_for(lambda: "storage not mounted" in note(yard, second), "the reason to be shown")
    assert yard.probe.wait_end(first)["job"]["state"] == "SUCCEEDED"
    assert yard.probe.wait_end(second, 90)["job"]["state"] == "SUCCEEDED"
    assert (yard.out(second) / "starts").read_text() == "x\n"


def test_an_engine_that_hangs_at_a_launch_holds_nobody_else_up_and_starts_the_job_once(yard: Yard) -> None:
    with frozen(yard.machine):
        job = yard.begin(COUNT)
        assert job in yard.console.sf("job", "ls", cwd=yard.probe.project).stdout
        wait_for(lambda: note(yard, job), "the reason to be shown", 40)
        assert yard.probe.state(job) in {"QUEUED", "SUBMITTED"}
    assert yard.probe.wait_end(job, 60)["job"]["state"] == "SUCCEEDED"
    assert (yard.out(job) / "starts").read_text() == "x\n"


def test_a_stop_while_the_engine_hangs_is_kept_and_carried_out(yard: Yard) -> None:
    job = yard.begin("echo begun; trap '' TERM; while :; do sleep 1; done")
    wait_for(lambda: "begun" in yard.probe.log(job), "the script to run")
    with frozen(yard.machine):
        yard.console.sf("job", "stop", job, "--grace", "1", cwd=yard.probe.project)
        assert yard.probe.detail(job)["job"]["desired"] == "stop"
    assert yard.probe.wait_end(job)["job"]["state"] == "STOPPED"
