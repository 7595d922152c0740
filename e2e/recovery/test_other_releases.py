"""A console meets a ledger that a newer release has brought further: all commands say so, and change nothing."""

import json
import sqlite3
from dataclasses import asdict
from pathlib import Path

import psycopg

from e2e.recovery.asking import run, sign_in
from e2e.recovery.conftest import Make
from e2e.support.console import ConsoleProcess
from starforge_console.backup.manifest import list_kept

COMMANDS = (
    ("serve",),
    ("init",),
    ("token", "create", "--user", "ada"),
    ("user", "add", "bob"),
    ("backup", "{folder}/newer"),
)


def bring_further(console: ConsoleProcess) -> None:
    """As a release to come would leave it."""
    statement = "UPDATE alembic_version SET version_num = '9999'"
    url = console.environment.get("FORGE_DATABASE_URL")
    if url is None:
        with sqlite3.connect(Path(console.environment["FORGE_CONSOLE_STATE_DIR"]) / "ledger.db") as ledger:
            ledger.execute(statement)
        ledger.close()
        return
    with psycopg.connect(url) as server:
        server.execute("SET search_path = ledger")
        server.execute(statement)


def tell_digests_anew(backup: Path) -> None:
    """As if the newer release had made it."""
    manifest = json.loads((backup / "manifest.json").read_text())
    manifest["files"] = [asdict(one) for one in list_kept(backup)]
    (backup / "manifest.json").write_text(json.dumps(manifest))


def test_every_command_refuses_it_in_words(make: Make) -> None:
    console = make("console")
    sign_in(console)
    console.stop()
    bring_further(console)
    for words in COMMANDS:
        done = run(console, *(word.format(folder=console.folder) for word in words))
        assert (done.returncode, done.stdout) == (2, ""), words
        assert "the ledger is newer than this release" in done.stderr
        assert "revision 9999" in done.stderr
        assert "run the release that served it last" in done.stderr
        assert "Traceback" not in done.stderr
    assert not (console.folder / "newer").exists()


def test_a_backup_of_it_is_refused_and_its_place_stays_empty(make: Make) -> None:
    console = make("console")
    asker = sign_in(console)
    asker.submit("one")
    assert run(console, "backup", str(console.folder / "backup")).returncode == 0
    console.stop()
    other = make("other")
    copied = sqlite3.connect(console.folder / "backup" / "ledger.db")
    with copied:
        copied.execute("UPDATE alembic_version SET version_num = '9999'")
    copied.close()
    tell_digests_anew(console.folder / "backup")
    done = run(other, "restore", str(console.folder / "backup"))
    assert done.returncode == 2
    assert "the ledger is newer than this release" in done.stderr
    assert run(other, "token", "create", "--user", "ada").returncode == 2
    assert run(other, "init", "--admin", "bob").returncode == 0  # nobody is there yet
