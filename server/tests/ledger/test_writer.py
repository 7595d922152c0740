"""Many closures a commit: each kept or left whole, none answered before it is durable."""

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection, event, text
from sqlalchemy.exc import DBAPIError, OperationalError

from server.tests.databases import make_place, place_of, sqlite_only
from server.tests.ledger.builders import open_ledger
from starforge_console.errors import LedgerFailed, SettingsError
from starforge_console.ledger.copying import settle_file
from starforge_console.ledger.database import Database, lock_state, open_file, upgrade_schema
from starforge_console.ledger.fleets import add_fact, find_fact
from starforge_console.ledger.writer import Writer


def test_a_closure_that_raises_leaves_nothing_and_spoils_no_neighbour(tmp_path: Path) -> None:
    def half(connection: Connection, number: int) -> None:
        add_fact(connection, f"half-{number}", "x")
        message = f"no {number}"
        raise ValueError(message)

    async def race(ledger: Database) -> list[object]:
        good = [ledger.write(partial(add_fact, name=f"good-{n}", value="x")) for n in range(50)]
        bad = [ledger.write(partial(half, number=n)) for n in range(50)]
        mixed = [one for pair in zip(good, bad, strict=True) for one in pair]
        return await asyncio.gather(*mixed, return_exceptions=True)

    with open_ledger(tmp_path) as ledger:
        answers = asyncio.run(race(ledger))
        assert sum(isinstance(answer, ValueError) for answer in answers) == 50
        for number in range(50):
            assert ledger.read_now(partial(find_fact, name=f"good-{number}")) == "x"
            assert ledger.read_now(partial(find_fact, name=f"half-{number}")) is None


def test_an_answer_means_that_another_connection_sees_it(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        ledger.write_now(lambda connection: add_fact(connection, "a", "1"))
        other = Database(place_of(tmp_path / "ledger.db"), "ledger")
        try:
            assert other.read_now(lambda connection: find_fact(connection, "a")) == "1"
        finally:
            other.close()


def test_a_transaction_that_the_database_ended_fails_the_whole_batch(tmp_path: Path) -> None:
    def end_it(connection: Connection) -> None:
        add_fact(connection, "lost", "x")
        connection.exec_driver_sql("ROLLBACK")
        message = "the disk is full"
        raise OSError(message)

    async def batch(ledger: Database) -> list[object]:
        works = [lambda connection: add_fact(connection, "before", "x"), end_it]
        works += [lambda connection: add_fact(connection, "after", "x")]
        return await asyncio.gather(*(ledger.write(work) for work in works), return_exceptions=True)

    running, go_on = threading.Event(), threading.Event()

    def first(_: Connection) -> None:
        running.set()
        go_on.wait(10)

    async def main(ledger: Database) -> list[object]:
        blocking = ledger.write(first)  # the three meet in one batch behind it
        waiting = asyncio.ensure_future(blocking)
        await asyncio.to_thread(running.wait, 10)
        three = asyncio.ensure_future(batch(ledger))
        await asyncio.sleep(0)
        go_on.set()
        await waiting
        return await three

    with open_ledger(tmp_path) as ledger:
        task_answers = asyncio.run(main(ledger))
        kept = ledger.read_now(lambda connection: connection.execute(text("SELECT name FROM facts")).scalars().all())
        assert kept == []
        assert all(isinstance(answer, LedgerFailed) for answer in task_answers)
        ledger.write_now(lambda connection: add_fact(connection, "later", "x"))


def test_readers_cannot_write(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger, pytest.raises(Exception, match=r"read-?only"):
        ledger.read_now(lambda connection: add_fact(connection, "a", "1"))


def test_no_sql_runs_on_the_event_loops_thread(tmp_path: Path) -> None:
    async def where(ledger: Database) -> set[str]:
        names = {await ledger.read(lambda _: threading.current_thread().name)}
        names.add(await ledger.write(lambda _: threading.current_thread().name))
        return names

    with open_ledger(tmp_path) as ledger:
        assert threading.current_thread().name not in asyncio.run(where(ledger))


@sqlite_only
def test_upgrading_twice_changes_nothing(tmp_path: Path) -> None:
    for schema in ("ledger", "series"):
        upgrade_schema(tmp_path / f"{schema}.db", schema)
        before = _schema(tmp_path / f"{schema}.db")
        upgrade_schema(tmp_path / f"{schema}.db", schema)
        assert _schema(tmp_path / f"{schema}.db") == before


def test_a_second_console_on_one_ledger_is_refused_by_name(tmp_path: Path) -> None:
    script = "import sys; from pathlib import Path; from starforge_console.ledger.database import lock_state;"
    script += "lock_state(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(SettingsError, match=f"process {holder.pid}"):
            lock_state(tmp_path)
        holder.kill()
    os.close(lock_state(tmp_path))


def _schema(path: Path) -> list[tuple[str, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()
    finally:
        connection.close()


@pytest.mark.parametrize("content", [b"", b"no database at all, but long enough to look at " * 100])
def test_a_file_that_cannot_be_used_is_told_in_words(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "ledger.db"
    file.write_bytes(content)
    if not content:
        file = tmp_path / "no folder" / "ledger.db"
    for use in (upgrade_schema, Database):
        with pytest.raises(SettingsError, match=r"ledger\.db cannot be used") as refused:
            use(file, "ledger")
        assert "restore a backup" in refused.value.next_step


def test_a_file_whose_log_was_closed_can_be_opened_by_many_at_once(tmp_path: Path) -> None:
    place = make_place(tmp_path / "ledger.db", "ledger")
    for _ in range(5):
        if isinstance(place, Path):
            settle_file(place)
        ledger = Database(place, "ledger")
        try:
            assert ledger.read_now(partial(find_fact, name="a")) is None
            ledger.write_now(lambda c: c.execute(text("DELETE FROM facts")))
        finally:
            ledger.close()


def test_a_statement_that_is_wrong_is_a_fault_of_ours_and_none_of_the_disk(tmp_path: Path) -> None:
    def ask(connection: Connection) -> None:
        connection.execute(text("SELECT nothing_like_that FROM facts"))

    with open_ledger(tmp_path) as ledger:
        for do in (ledger.read_now, ledger.write_now):
            with pytest.raises(DBAPIError):
                do(ask)
        ledger.write_now(partial(add_fact, name="afterwards", value="x"))


class _Serialization(Exception):
    sqlstate = "40001"


@pytest.mark.parametrize(("failures", "keeps"), [(4, True), (5, False)])
def test_a_commit_that_makes_way_again_and_again_is_told_and_never_answered_as_kept(
    tmp_path: Path,
    failures: int,
    keeps: bool,  # noqa: FBT001 - what is expected
) -> None:
    engine = open_file(tmp_path / "x.db", read_only=False)
    left = iter(range(failures))

    @event.listens_for(engine, "commit")
    def _refuse(connection: Connection) -> None:
        if next(left, None) is not None:
            connection.exec_driver_sql("ROLLBACK")  # as the server does
            raise OperationalError("COMMIT", None, _Serialization())

    writer = Writer(engine, "x")
    written = writer.submit(lambda c: c.exec_driver_sql("CREATE TABLE IF NOT EXISTS rows (x)").close())
    try:
        if keeps:
            written.result(20)
        else:
            with pytest.raises(LedgerFailed, match="nothing of this request was kept"):
                written.result(20)
    finally:
        writer.close()
        engine.dispose()
