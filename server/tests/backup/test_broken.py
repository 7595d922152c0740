"""Backups that are no backups, and databases that go away in the middle: told in words, and nothing half is left."""

import contextlib
import gc
import json
import sqlite3
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psycopg
import pytest

from e2e.support.console import wait_for
from server.tests.backup.support import build_settings, prepare, read_rows
from server.tests.databases import is_postgres
from starforge_console.backup.manifest import list_kept
from starforge_console.backup.restoring import restore
from starforge_console.backup.taking import take_backup
from starforge_console.errors import LedgerFailed, SettingsError
from starforge_console.fleets.install import locate
from starforge_console.ledger.database import upgrade_schema
from starforge_console.ledger.place import Server
from starforge_console.settings.console import ConsoleSettings

on_server = pytest.mark.skipif(not is_postgres(), reason="it is about a server")
GOOD = {"path": "ledger.db", "bytes": 1, "sha256": "00"}
Change = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    "text",
    [
        *("", "not JSON", "[]", "null", "3", '"format"', "{}", '{"format": "1"}', '{"format": true}', '{"format": 1}'),
        *("[" * 100_000, '{"format": 1e999}', "\ud800"),
    ],
)
def test_a_manifest_that_is_none_is_told(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "backup"
    folder.mkdir()
    (folder / "manifest.json").write_bytes(text.encode(errors="surrogatepass"))
    with pytest.raises(SettingsError, match="there is no whole backup in") as refused:
        restore(build_settings(tmp_path, "again", "sqlite"), folder)
    assert (
        "manifest.json: " in refused.value.why,
        "that 'starforge-console backup' made" in refused.value.next_step,
    ) == (
        True,
        True,
    )
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda told: told.pop("made_at"),
        lambda told: told.pop("files"),
        lambda told: told["files"][0].pop("sha256"),
        lambda told: told.update(made_at="yesterday"),
        lambda told: told.update(made_at=None),
        lambda told: told.update(made_at=1e300),
        lambda told: told.update(storage=7),
        lambda told: told.update(files={}),
        lambda told: told.update(files=["ledger.db"]),
        lambda told: told.update(files=[]),
        lambda told: told.update(files=[one for one in told["files"] if one["path"] != "series.db"]),
        lambda told: told.update(gaps=[{"attempt": "a1"}]),
        lambda told: told["files"].append({**GOOD, "path": "/etc/passwd"}),
        lambda told: told["files"].append({**GOOD, "path": "state/../../x"}),
        lambda told: told["files"].append({**GOOD, "path": "a\0b"}),
        lambda told: told["files"].append({**GOOD, "path": ""}),
    ],
)
def test_a_manifest_that_lacks_something_or_holds_something_else_is_told(tmp_path: Path, change: Change) -> None:
    backup = prepare(tmp_path)
    told = json.loads((backup / "manifest.json").read_text())
    change(told)
    (backup / "manifest.json").write_text(json.dumps(told))
    with pytest.raises(SettingsError, match="there is no whole backup in"):
        restore(build_settings(tmp_path, "again", "sqlite"), backup)
    assert not (tmp_path / "again").exists()


def test_what_a_later_release_may_add_is_no_fault(tmp_path: Path) -> None:
    backup = prepare(tmp_path)
    told = json.loads((backup / "manifest.json").read_text())
    (backup / "manifest.json").write_text(json.dumps({**told, "made_by": "ada"}))
    assert restore(build_settings(tmp_path, "again", "sqlite"), backup).counts.jobs > 0


def test_a_restore_that_fails_leaves_nothing(tmp_path: Path) -> None:
    backup = prepare(tmp_path)
    with contextlib.closing(sqlite3.connect(backup / "ledger.db")) as ledger, ledger:
        ledger.execute("UPDATE alembic_version SET version_num = '9999'")
    told = json.loads((backup / "manifest.json").read_text())
    files = [asdict(one) for one in list_kept(backup)]
    (backup / "manifest.json").write_text(json.dumps({**told, "files": files}))
    with pytest.raises(SettingsError, match="the ledger is newer than this release"):
        restore(build_settings(tmp_path, "again", "sqlite"), backup)
    assert [path.name for path in (tmp_path / "again").iterdir()] == ["leader"]


@contextmanager
def cutting(settings: ConsoleSettings, schema: str, table: str) -> Iterator[None]:
    """End the session of whoever comes to that table of the server's."""
    place = locate(settings, schema)
    assert isinstance(place, Server)
    url = place.url.reveal()
    waiting = (
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )

    def cut() -> None:
        with psycopg.connect(url, autocommit=True) as asking:
            wait_for(lambda: asking.execute(waiting).fetchall(), f"somebody who comes to {table}")

    with psycopg.connect(url) as holding:
        holding.execute(f"LOCK TABLE {schema}.{table} IN ACCESS EXCLUSIVE MODE")
        watch = threading.Thread(target=cut)
        watch.start()
        try:
            yield
        finally:
            watch.join()


def fail(work: Callable[[], object]) -> str:
    """What is said of it."""
    with pytest.raises(LedgerFailed) as failed:
        work()
    error = failed.value
    assert (error.exit_code, bool(error.why), "FORGE_DATABASE_URL" in error.next_step) == (1, True, True)
    told = error.what
    del error, failed
    with warnings.catch_warnings():
        # Of a session that is gone SQLAlchemy closes no cursor, and the driver warns of each that is let go open.
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
    return told


@on_server
@pytest.mark.parametrize(("schema", "table"), [("ledger", "jobs"), ("series", "streams")])
def test_a_server_that_goes_away_in_the_middle_leaves_no_backup(tmp_path: Path, schema: str, table: str) -> None:
    prepare(tmp_path, "postgres")
    settings = build_settings(tmp_path, "state", "postgres")
    with cutting(settings, schema, table):
        assert "nothing is left of this backup" in fail(lambda: take_backup(settings, tmp_path / "other"))
    assert [path.name for path in tmp_path.iterdir() if "other" in path.name] == []
    assert take_backup(settings, tmp_path / "other").files


@on_server
@pytest.mark.parametrize(("schema", "table"), [("ledger", "jobs"), ("series", "streams")])
def test_a_server_that_goes_away_in_the_middle_is_restored_to_again(tmp_path: Path, schema: str, table: str) -> None:
    backup = prepare(tmp_path, "postgres")
    before = read_rows(build_settings(tmp_path, "state", "postgres"))["series"]
    settings = build_settings(tmp_path, "again", "postgres")
    for name in ("ledger", "series"):
        upgrade_schema(locate(settings, name), name)
    with cutting(settings, schema, table):
        assert "could not be brought to its database" in fail(lambda: restore(settings, backup))
    assert restore(settings, backup).counts.jobs > 0
    assert read_rows(settings)["series"] == before
