"""The disk under the ledger is full: what was answered is kept, the rest is refused in words, no restart is needed."""

import os
import pwd
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psycopg
import pytest

from e2e.recovery.asking import Asker, run, sign_in
from e2e.recovery.conftest import Make
from e2e.support.console import ConsoleProcess, wait_for
from e2e.support.disks import small_disk, take_all_room
from server.tests.databases import url_of

MOST: Final = 4000
AT_ONCE: Final = 50


@pytest.fixture
def disk() -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("a small disk is mounted, which takes root")
    with small_disk(32 << 20) as place:
        place.chmod(0o700)
        yield place


@pytest.fixture
def console(make: Make, kind: str, disk: Path) -> Iterator[ConsoleProcess]:
    """Its ledger lies on the small disk: in its state directory, or in the server's files."""
    if kind == "sqlite":
        yield make("console", FORGE_CONSOLE_STATE_DIR=str(disk))
        return
    shutil.chown(disk, find_server_user())
    name = f"small{os.getpid()}"
    with psycopg.connect(url_of("postgres"), autocommit=True) as server:
        server.execute(f"CREATE TABLESPACE {name} LOCATION '{disk}'")
        server.execute(f"CREATE DATABASE {name} ENCODING 'UTF8' LOCALE 'C' TEMPLATE template0 TABLESPACE {name}")
    made = make("console", FORGE_DATABASE_URL=url_of(name))
    yield made
    made.stop()
    with psycopg.connect(url_of("postgres"), autocommit=True) as server:
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")
        server.execute(f"DROP TABLESPACE {name}")


def find_server_user() -> str:
    """Who may write to the server's own files."""
    return pwd.getpwuid(Path(url_of("postgres").partition("host=")[2].partition("&")[0]).stat().st_uid).pw_name


def submit_until_refused(asker: Asker) -> tuple[dict[str, str], str]:
    """The jobs that were accepted, by id with their names, and a key that was not."""
    accepted = {}
    for start in range(0, MOST, AT_ONCE):
        refused = ""
        for reply in asker.submit_at_once([f"full-{number}" for number in range(start, start + AT_ONCE)]):
            if reply.status == 201:
                accepted[reply.job] = reply.key
                continue
            assert (reply.status, reply.body["code"]) == (503, "ledger_failed"), reply
            assert "disk is full" in str(reply.body) or "No space left" in str(reply.body)
            refused = reply.key
        if refused:
            return accepted, refused
    raise AssertionError("the disk was never full")


def test_what_was_answered_is_kept_and_there_is_work_again_once_there_is_room(
    console: ConsoleProcess, disk: Path
) -> None:
    asker = sign_in(console)
    before = asker.submit("before")
    filler = take_all_room(disk)
    accepted, refused = submit_until_refused(asker)
    assert console.get("/healthz")["status"] == "ok"
    known = {before.job: "before"} | accepted
    assert asker.list_jobs() == known

    filler.unlink()
    again = asker.submit(refused)
    assert asker.submit(refused).job == again.job
    assert asker.list_jobs() == known | {again.job: refused}


def test_a_console_that_crashed_on_a_full_disk_serves_again_and_has_lost_nothing(
    console: ConsoleProcess, disk: Path
) -> None:
    asker = sign_in(console)
    filler = take_all_room(disk)
    accepted, refused = submit_until_refused(asker)
    console.kill()
    done = run(console, "token", "create", "--user", "ada")  # for which there may be room in what is there already
    assert done.returncode == 0 or "No space left" in done.stderr or "disk is full" in done.stderr
    assert "Traceback" not in done.stderr
    filler.unlink()
    console.start()
    assert asker.list_jobs() == accepted
    assert asker.submit(refused).status == 201


def test_a_console_that_starts_on_a_full_disk_says_so_and_starts_once_there_is_room(
    console: ConsoleProcess, disk: Path
) -> None:
    asker = sign_in(console)
    filler = take_all_room(disk)
    accepted, _ = submit_until_refused(asker)
    console.kill()
    logged = len(console.read_log())
    console.begin()
    process = console.process
    assert process is not None
    wait_for(lambda: process.poll() is not None or is_served(console), "it to serve or to end")
    said = console.read_log()[logged:]
    assert "Traceback" not in said
    if process.poll() is not None:
        assert process.returncode == 2
        assert "No space left" in said or "disk is full" in said
    filler.unlink()
    console.restart()
    assert asker.list_jobs() == accepted


def test_a_backup_for_which_there_is_no_room_leaves_nothing(make: Make, disk: Path, kind: str) -> None:
    del kind
    console = make("console")
    asker = sign_in(console)
    jobs = [asker.submit(f"n{number}").job for number in range(5)]
    filler = take_all_room(disk)
    done = run(console, "backup", str(disk / "backup"))
    assert done.returncode != 0
    assert "No space left" in done.stderr or "disk is full" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(disk.iterdir()) == [filler]
    filler.unlink()
    assert run(console, "backup", str(disk / "backup")).returncode == 0
    assert set(asker.list_jobs()) == set(jobs)


def is_served(console: ConsoleProcess) -> bool:
    try:
        return console.is_ready()
    except RuntimeError:
        return False
