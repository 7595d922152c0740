"""A backup is of one moment, whatever comes in meanwhile; restored, it is what it was."""

import asyncio
import json
import shutil
import stat
import time
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import text

from server.tests.backup.support import (
    KINDS,
    WORKSPACE,
    Install,
    build_settings,
    fill,
    open_install,
    prepare,
    read_rows,
)
from server.tests.ledger.builders import submit
from starforge.contract.canonical import digest_bytes
from starforge_console.assembly.layout import StorageLayout
from starforge_console.backup.restoring import restore
from starforge_console.backup.taking import HELD_S, take_backup
from starforge_console.errors import SettingsError
from starforge_console.fleets.install import load_install, locate, prepare_folder
from starforge_console.ledger.contents import iterate_log_files
from starforge_console.ledger.copying import copy_in
from starforge_console.ledger.database import Database, upgrade_schema
from starforge_console.ledger.maintenance import BY_RESTORE, find_maintenance
from starforge_console.ledger.restored import find_restored
from starforge_console.ledger.retention_runs import Hold, add_hold, find_hold, list_holds
from starforge_console.ledger.views import list_events


@pytest.mark.parametrize("target", KINDS)
@pytest.mark.parametrize("source", KINDS)
def test_what_is_restored_is_what_was_there(tmp_path: Path, source: str, target: str) -> None:
    settings = build_settings(tmp_path, "state", source)

    async def work() -> None:
        async with open_install(settings) as install:
            await fill(install)

    asyncio.run(work())
    before = read_rows(settings)
    take_backup(settings, tmp_path / "backup")
    again = build_settings(tmp_path, "again", target)
    outcome = restore(again, tmp_path / "backup")

    assert (outcome.gaps, outcome.blobs, outcome.newer, outcome.unknown) == ([], [], [], [])
    after = read_rows(again)
    for schema, tables in before.items():
        for name, rows in tables.items():
            if name != "facts":
                assert after[schema][name] == rows, name
    assert set(before["ledger"]["facts"]) <= set(after["ledger"]["facts"])
    assert len(before["ledger"]["events"]) > 20
    assert len(before["series"]["log_segments"]) > 0
    assert len(before["series"]["metric_chunks"]) > 0
    for name in ("vault-key", "token-key"):
        kept = again.paths.console_state_dir / name
        assert kept.read_text() == f"the {name}"
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert not (again.paths.console_state_dir / ".restoring").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_under_load_it_is_of_one_moment(tmp_path: Path, kind: str) -> None:
    settings = build_settings(tmp_path, "state", kind)
    told: dict[str, bytes] = {}
    acknowledged: dict[str, int] = {}

    async def work() -> None:
        async with open_install(settings) as install:
            reports = [asyncio.create_task(install.report()) for _ in range(3)]
            await asyncio.wait_for(install.busy.wait(), 60)
            acknowledged.update({attempt.id: len(content) for attempt, content in install.told.items()})
            await asyncio.to_thread(take_backup, settings, tmp_path / "backup")
            during = sum(map(len, install.told.values())) - sum(acknowledged.values())
            install.stopped = True
            await asyncio.gather(*reports)
            assert during > 0
            told.update({attempt.id: content for attempt, content in install.told.items()})

    asyncio.run(work())
    again = build_settings(tmp_path, "again", kind)
    outcome = restore(again, tmp_path / "backup")
    assert outcome.gaps == []
    live, kept = read_rows(settings), read_rows(again)
    assert {row[0] for row in kept["ledger"]["events"]} <= {row[0] for row in live["ledger"]["events"]}
    assert set(kept["ledger"]["events"]) <= set(live["ledger"]["events"])
    assert {row[0] for row in kept["ledger"]["jobs"]} <= {row[0] for row in live["ledger"]["jobs"]}
    assert len(kept["ledger"]["jobs"]) == outcome.counts.jobs
    logs = again.paths.console_state_dir / "logs"
    marks = {row[:2]: row[2] for row in kept["series"]["streams"]}
    for attempt, content in told.items():
        # All that was acknowledged before is there, and what is there is what was sent.
        assert acknowledged[attempt] <= marks[attempt, "log"] <= len(content)
        assert _read_log(again, logs, attempt) == content[: marks[attempt, "log"]]
    points = {row[0]: row[2] for row in kept["series"]["metric_keys"]}
    assert all(points.values())


def _read_log(settings: object, logs: Path, attempt: str) -> bytes:
    series = Database(locate(settings, "series"), "series")  # type: ignore[arg-type]
    try:
        files = series.read_now(lambda c: list(iterate_log_files(c)))
    finally:
        series.close()
    pieces = {}
    for name, ranges in files:
        for one in ranges:
            if one.attempt == attempt and one.stream == "log":
                content = (logs / name).read_bytes()
                pieces[one.from_byte] = content[one.position : one.position + one.to_byte - one.from_byte]
    return b"".join(content for _, content in sorted(pieces.items()))


@pytest.mark.parametrize("kind", KINDS)
def test_a_restored_console_is_the_same_install_and_starts_nothing_yet(tmp_path: Path, kind: str) -> None:
    backup = prepare(tmp_path)
    again = build_settings(tmp_path, "again", kind)
    outcome = restore(again, backup)
    ledger = Database(locate(again, "ledger"), "ledger")
    try:
        assert load_install(ledger, again.storage_root).id == outcome.manifest.install
        restored, maintenance = ledger.read_now(find_restored), ledger.read_now(find_maintenance)
        hold = ledger.read_now(lambda c: find_hold(c, 0.0))
        assert restored is not None
        assert restored.made_at == outcome.manifest.made_at
        assert maintenance is not None
        assert (maintenance.by, hold.by if hold else None) == (BY_RESTORE, BY_RESTORE)
        assert "restored from the backup of" in maintenance.reason

        # Numbers that others were told after the backup are not given again.
        highest = ledger.read_now(lambda c: c.execute(text("SELECT max(number) FROM events")).scalar_one())
        job = ledger.write_now(submit)
        (event,) = ledger.read_now(lambda c: list_events(c, job, limit=10))
        assert event.number > highest + 1_000_000
    finally:
        ledger.close()


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    backup = prepare(tmp_path)
    manifest = json.loads((backup / "manifest.json").read_text())
    (log,) = [one for one in manifest["files"] if one["path"].startswith("logs/")][:1]
    content = bytearray((backup / log["path"]).read_bytes())
    (backup / log["path"]).write_bytes(content[:-7])
    with pytest.raises(SettingsError, match="is damaged"):
        restore(build_settings(tmp_path, "again", "sqlite"), backup)

    # The same, but the backup says so itself, as when a job is deleted while it is taken.
    manifest["files"].remove(log)
    (backup / "manifest.json").write_text(json.dumps(manifest))
    (backup / log["path"]).unlink()
    StorageLayout(tmp_path / "storage").blob(digest_bytes(WORKSPACE)).unlink()
    again = build_settings(tmp_path, "again", "sqlite")
    outcome = restore(again, backup)
    series = Database(locate(again, "series"), "series")
    try:
        ranges = dict(series.read_now(lambda c: list(iterate_log_files(c))))[log["path"].removeprefix("logs/")]
    finally:
        series.close()
    assert [(gap.attempt, gap.from_byte, gap.to_byte, gap.why) for gap in outcome.gaps] == [
        (one.attempt, one.from_byte, one.to_byte, "No such file or directory") for one in ranges
    ]
    assert len(ranges) > 0
    assert outcome.blobs == [digest_bytes(WORKSPACE)]


def test_attempts_and_jobs_that_are_newer_are_named_and_their_jobs_remembered(tmp_path: Path) -> None:
    backup = prepare(tmp_path)
    again = build_settings(tmp_path, "again", "sqlite")
    runs = tmp_path / "storage" / "runs"
    known = sorted(row[0] for row in read_rows(build_settings(tmp_path, "state", "sqlite"))["ledger"]["jobs"])
    (runs / known[0] / "capsules" / "4").mkdir(parents=True)
    (runs / "jaaaaaaaaa" / "attempts" / "1").mkdir(parents=True)
    outcome = restore(again, backup)
    assert [(one.job, one.number, one.place) for one in outcome.newer] == [(known[0], 4, "storage")]
    assert outcome.unknown == ["jaaaaaaaaa"]
    assert read_rows(again)["ledger"]["newer_attempts"] == [(known[0], 4, "storage")]


def test_nothing_is_written_over(tmp_path: Path) -> None:
    backup = prepare(tmp_path)
    with pytest.raises(SettingsError, match="set up here already"):
        restore(build_settings(tmp_path, "state", "sqlite"), backup)
    with pytest.raises(SettingsError, match="exists"):
        take_backup(build_settings(tmp_path, "state", "sqlite"), backup)
    with pytest.raises(SettingsError, match="lies in what is backed up"):
        take_backup(build_settings(tmp_path, "state", "sqlite"), tmp_path / "state" / "backup")


@pytest.mark.parametrize("name", ["token-key", "vault-key"])
def test_the_keys_of_a_console_whose_ledger_is_elsewhere_are_not_written_over(tmp_path: Path, name: str) -> None:
    backup = prepare(tmp_path)
    again = build_settings(tmp_path, "again", "sqlite")
    assert (backup / "state" / name).exists()
    prepare_folder(again.paths.console_state_dir)
    (tmp_path / "again" / name).write_text("another console's")
    with pytest.raises(SettingsError, match=f"{name} is there already"):
        restore(again, backup)
    assert (tmp_path / "again" / name).read_text() == "another console's"


def test_another_storage_is_refused(tmp_path: Path) -> None:
    backup = prepare(tmp_path)
    (tmp_path / "storage" / ".starforge-storage").unlink()
    (tmp_path / "storage" / ".starforge-storage").write_text("another one\n")
    with pytest.raises(SettingsError, match="not this console's storage"):
        restore(build_settings(tmp_path, "again", "sqlite"), backup)
    assert not (tmp_path / "again" / "ledger.db").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_a_restore_that_was_cut_can_be_repeated(tmp_path: Path, kind: str) -> None:
    """It was cut when the series was there already, and the ledger had its tables and no row."""
    backup = prepare(tmp_path)
    again = build_settings(tmp_path, "again", kind)
    prepare_folder(again.paths.console_state_dir)
    (tmp_path / "again" / ".restoring").mkdir(mode=0o700)
    (tmp_path / "again" / ".restoring" / "ledger.db").write_bytes(b"half")
    shutil.copy(backup / "series.db", tmp_path / "series.db")
    copy_in(tmp_path / "series.db", locate(again, "series"), "series")
    if kind == "postgres":
        upgrade_schema(locate(again, "ledger"), "ledger")
    assert restore(again, backup).counts.jobs > 0
    assert read_rows(again)["series"] == read_rows(build_settings(tmp_path, "state", "sqlite"))["series"]


@pytest.mark.parametrize("broken", ["no folder", "no manifest", "another format"])
def test_what_is_no_backup_is_told(tmp_path: Path, broken: str) -> None:
    folder = tmp_path / "backup"
    if broken != "no folder":
        folder.mkdir()
    if broken == "another format":
        (folder / "manifest.json").write_text('{"format": 99}')
    with pytest.raises(SettingsError, match=r"no whole backup|another format"):
        restore(build_settings(tmp_path, "again", "sqlite"), folder)


def test_the_collector_is_held_while_a_backup_is_taken_and_only_then(tmp_path: Path) -> None:
    settings = build_settings(tmp_path, "state", "sqlite")

    async def work(install: Install) -> None:
        await fill(install, attempts=1, rounds=2)
        await asyncio.to_thread(take_backup, settings, tmp_path / "one")
        assert await install.ledger.read(partial(find_hold, now=0.0)) is None
        mine = Hold(id="her-own", until=9e9, by="ada", why="her own")
        await install.ledger.write(lambda c: add_hold(c, mine, 0.0))
        await asyncio.to_thread(take_backup, settings, tmp_path / "two")
        assert await install.ledger.read(partial(list_holds, now=0.0)) == [mine]

    async def main() -> None:
        async with open_install(settings) as install:
            await work(install)

    asyncio.run(main())
    copied = Database(tmp_path / "one" / "ledger.db", "ledger")
    try:
        standing = copied.read_now(lambda c: find_hold(c, 0.0))
    finally:
        copied.close()
    assert standing is not None
    assert standing.by == "backup"


@pytest.mark.parametrize("kind", KINDS)
def test_backups_and_a_restore_hold_the_collector_each_for_itself(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hold of a restore outlasts a backup; of two backups at once, neither loses its hold by the other's end."""
    again = build_settings(tmp_path, "again", kind)
    restore(again, prepare(tmp_path))
    ledger = Database(locate(again, "ledger"), "ledger")
    seen: list[list[str]] = []

    def note_holders() -> None:
        seen.append([one.by for one in ledger.read_now(lambda c: list_holds(c, 0.0))])

    def begin_another(_state: Path, _target: Path) -> None:
        note_holders()
        if len(seen) == 1:
            take_backup(again, tmp_path / "inner")
            note_holders()

    monkeypatch.setattr("starforge_console.backup.taking._copy_state", begin_another)
    try:
        take_backup(again, tmp_path / "outer")
        note_holders()
    finally:
        ledger.close()
    copied = 1  # the hold of the backup that was restored, in its own copy
    assert [one.count("backup") - copied for one in seen] == [1, 2, 1, 0]
    assert all(one.count(BY_RESTORE) == 1 for one in seen)


def test_a_backup_that_was_killed_holds_the_collector_for_a_day_and_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = build_settings(tmp_path, "state", "sqlite")
    prepare(tmp_path)
    monkeypatch.setattr("starforge_console.backup.taking.end_hold", lambda _connection, _hold: None)
    take_backup(settings, tmp_path / "killed")
    monkeypatch.undo()
    ledger = Database(locate(settings, "ledger"), "ledger")
    try:
        now = time.time()
        (left,) = ledger.read_now(lambda c: list_holds(c, now))
        take_backup(settings, tmp_path / "next")
        assert ledger.read_now(lambda c: list_holds(c, now)) == [left]
        assert ledger.read_now(lambda c: list_holds(c, now + HELD_S + 60)) == []
    finally:
        ledger.close()


def test_a_backup_that_fails_leaves_nothing(tmp_path: Path) -> None:
    settings = build_settings(tmp_path, "state", "sqlite")

    async def main() -> None:
        async with open_install(settings) as install:
            await fill(install, attempts=1, rounds=2)
            await install.ledger.write(lambda c: c.execute(text("UPDATE alembic_version SET version_num = '0007'")))

    asyncio.run(main())
    with pytest.raises(SettingsError, match="is older than this release"):
        take_backup(settings, tmp_path / "backup")
    assert [path.name for path in tmp_path.iterdir() if "backup" in path.name] == []
