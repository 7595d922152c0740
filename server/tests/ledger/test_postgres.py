"""What PostgreSQL adds: one leader, writers that wait for one another, sessions that a server ends."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Connection, text

from server.tests.databases import is_postgres, make_database, place_of, server_of
from starforge.contract.launch import Secret
from starforge_console.errors import LedgerFailed, SettingsError
from starforge_console.ledger.database import Database, holds_install, is_set_up, upgrade_schema
from starforge_console.ledger.fleets import add_fact, find_fact
from starforge_console.ledger.place import Server
from starforge_console.ledger.writer import RUNS_AT_MOST

pytestmark = [pytest.mark.postgres, pytest.mark.skipif(not is_postgres(), reason="it is about a server")]


@pytest.fixture
def server(tmp_path: Path) -> Server:
    place = place_of(tmp_path / "ledger.db")
    assert isinstance(place, Server)
    return place


@pytest.fixture
def ledger(server: Server) -> Iterator[Database]:
    opened = Database(server, "ledger")
    yield opened
    opened.close()


def ignore() -> None:
    return


def end_sessions(server: Server, kind: str = "%") -> None:
    """As a server that restarts does, or an administrator."""
    with psycopg.connect(server.url.reveal(), autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid() AND application_name LIKE %s",
            (kind,),
        )


def list_facts(ledger: Database) -> list[str]:
    return sorted(ledger.read_now(lambda c: c.execute(text("SELECT name FROM facts")).scalars().all()))


def test_a_second_console_does_not_lead_until_the_first_has_ended(server: Server) -> None:
    first = Database(server, "ledger", lead_lost=ignore)
    try:
        with pytest.raises(SettingsError, match="another console leads"):
            Database(server, "ledger", lead_lost=ignore)
        command = Database(server, "ledger")  # what does not lead writes all the same
        command.write_now(partial(add_fact, name="by", value="a command"))
        command.close()
    finally:
        first.close()
    Database(server, "ledger", lead_lost=ignore).close()


def test_a_console_that_is_killed_lets_the_next_one_lead(server: Server, tmp_path: Path) -> None:
    script = (
        "import sys\nfrom pathlib import Path\nfrom server.tests.databases import place_of\n"
        "from starforge_console.ledger.database import Database\n"
        "d = Database(place_of(Path(sys.argv[1])), 'ledger', lead_lost=print)\nprint('leads', flush=True)\n"
        "sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "ledger.db")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "leads\n"
        os.kill(holder.pid, signal.SIGKILL)
    Database(server, "ledger", lead_lost=ignore).close()


def test_a_console_that_lost_its_session_leads_again_unless_another_one_did(server: Server) -> None:
    told = threading.Event()
    first = Database(server, "ledger", lead_lost=told.set)
    try:
        end_sessions(server)
        with pytest.raises(LedgerFailed):
            first.write_now(partial(add_fact, name="while it was away", value="x"))
        first.write_now(partial(add_fact, name="again", value="x"))
        assert not told.is_set()

        end_sessions(server)
        second = Database(server, "ledger", lead_lost=ignore)
        second.close()
        for _ in range(2):
            with pytest.raises(LedgerFailed) as failed:
                first.write_now(partial(add_fact, name="as if nothing had happened", value="x"))
        assert "another console leads" in failed.value.why
        assert told.is_set()
        assert list_facts(first) == ["again"]
    finally:
        first.close()


def test_a_session_that_ends_under_a_write_keeps_nothing_and_the_next_one_is_new(
    ledger: Database, server: Server
) -> None:
    def write_and_lose(connection: Connection) -> None:
        add_fact(connection, "lost", "x")
        end_sessions(server, "starforge-console ledger")
        find_fact(connection, "lost")

    with pytest.raises(LedgerFailed) as failed:
        ledger.write_now(write_and_lose)
    assert "nothing of this request was kept" in failed.value.what
    ledger.write_now(partial(add_fact, name="kept", value="x"))
    assert list_facts(ledger) == ["kept"]


def test_of_a_commit_without_an_answer_nobody_says_that_nothing_was_kept(ledger: Database) -> None:
    def write_and_lose(connection: Connection) -> None:
        add_fact(connection, "maybe", "x")
        connection.exec_driver_sql(
            "CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$"
        )
        connection.exec_driver_sql(
            "CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON facts DEFERRABLE INITIALLY DEFERRED"
            " FOR EACH ROW EXECUTE FUNCTION die()"
        )
        add_fact(connection, "and this", "x")

    with pytest.raises(LedgerFailed) as failed:
        ledger.write_now(write_and_lose)
    assert "whether this request was kept is not known" in failed.value.what
    assert list_facts(ledger) == []


@pytest.mark.parametrize("code", ["40001", "40P01"])
def test_what_makes_way_for_others_is_run_again_with_its_whole_batch(ledger: Database, code: str) -> None:
    runs: list[str] = []

    def make_way(connection: Connection) -> str:
        add_fact(connection, "second", "x")
        runs.append("second")
        if runs.count("second") < RUNS_AT_MOST:
            connection.exec_driver_sql(f"DO $$ BEGIN RAISE EXCEPTION 'make way' USING ERRCODE = '{code}'; END $$")
        return "done"

    started, go_on = threading.Event(), threading.Event()

    def hold(_: Connection) -> None:
        started.set()
        go_on.wait(10)

    holding = ledger._writer.submit(hold)  # both others meet in the batch behind it
    assert started.wait(10)
    first = ledger._writer.submit(partial(add_fact, name="first", value="x"))
    second = ledger._writer.submit(make_way)
    go_on.set()
    assert (holding.result(10), first.result(10), second.result(10)) == (None, "x", "done")
    assert runs == ["second"] * RUNS_AT_MOST
    assert list_facts(ledger) == ["first", "second"]


def test_what_makes_way_for_ever_fails_in_the_end(ledger: Database) -> None:
    def make_way(connection: Connection) -> None:
        connection.exec_driver_sql("DO $$ BEGIN RAISE EXCEPTION 'make way' USING ERRCODE = '40001'; END $$")

    with pytest.raises(LedgerFailed, match="could not commit"):
        ledger.write_now(make_way)
    ledger.write_now(partial(add_fact, name="later", value="x"))


def test_what_the_server_has_no_room_for_is_told_and_its_neighbours_are_kept(ledger: Database) -> None:
    def take_room(connection: Connection) -> None:
        add_fact(connection, "too large", "x")
        connection.exec_driver_sql("DO $$ BEGIN RAISE EXCEPTION 'No space left' USING ERRCODE = '53100'; END $$")

    started, go_on = threading.Event(), threading.Event()

    def hold(_: Connection) -> None:
        started.set()
        go_on.wait(10)

    holding = ledger._writer.submit(hold)  # the others meet in the batch behind it
    assert started.wait(10)
    first = ledger._writer.submit(partial(add_fact, name="first", value="x"))
    refused = ledger._writer.submit(take_room)
    last = ledger._writer.submit(partial(add_fact, name="last", value="x"))
    go_on.set()
    assert (holding.result(10), first.result(10), last.result(10)) == (None, "x", "x")
    with pytest.raises(LedgerFailed, match="nothing of this request was kept") as told:
        refused.result(10)
    assert "No space left" in told.value.why
    assert list_facts(ledger) == ["first", "last"]


def test_a_read_sees_one_moment_whatever_is_written_meanwhile(ledger: Database) -> None:
    def read_twice(connection: Connection) -> tuple[str | None, str | None]:
        before = find_fact(connection, "a")
        ledger.write_now(partial(add_fact, name="a", value="1"))
        return before, find_fact(connection, "a")

    assert ledger.read_now(read_twice) == (None, None)
    assert ledger.read_now(partial(find_fact, name="a")) == "1"


def test_writers_of_several_processes_see_what_was_committed_before_them(server: Server) -> None:
    """Each counts up by reading and writing: none may read what another is about to write over."""
    databases = [Database(server, "ledger") for _ in range(3)]

    def count_up(connection: Connection) -> None:
        known = find_fact(connection, "count")
        if known is None:
            add_fact(connection, "count", "1")
        else:
            connection.execute(text("UPDATE facts SET value = :new"), {"new": str(int(known) + 1)})

    def run(database: Database) -> None:
        for _ in range(30):
            database.write_now(count_up)

    threads = [threading.Thread(target=run, args=(one,)) for one in databases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    try:
        assert databases[0].read_now(partial(find_fact, name="count")) == "90"
    finally:
        for one in databases:
            one.close()


def test_the_one_character_that_the_server_keeps_in_no_text_is_replaced(ledger: Database) -> None:
    ledger.write_now(partial(add_fact, name="nul", value="a\0b"))
    assert ledger.read_now(partial(find_fact, name="nul")) == "a\N{REPLACEMENT CHARACTER}b"


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_database_whose_texts_are_in_another_order_is_refused(server: Server, encoding: str) -> None:
    name = f"in_{encoding.lower()}"
    with psycopg.connect(server.url.reveal(), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name}")
        connection.execute(f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
    with pytest.raises(SettingsError, match=f"encoding {encoding}"):
        upgrade_schema(server_of(name), "ledger")


def test_a_server_that_is_not_there_is_told_without_its_password(tmp_path: Path) -> None:
    away = Server(Secret(f"postgresql://someone:hunter2@/starforge?host={tmp_path}"))
    for use in (is_set_up, partial(upgrade_schema, schema="ledger"), partial(Database, schema="ledger")):
        with pytest.raises(SettingsError, match="FORGE_DATABASE_URL cannot be used") as refused:
            use(away)
        assert "hunter2" not in f"{refused.value} {refused.value.why} {refused.value!r} {away!r}"


def test_nothing_is_migrated_under_a_console_that_leads(server: Server) -> None:
    leading = Database(server, "ledger", lead_lost=ignore)
    try:
        upgrade_schema(server, "ledger")  # up to date: nothing to do
        leading.write_now(lambda c: c.execute(text("DROP TABLE alembic_version CASCADE")))
        with pytest.raises(SettingsError, match="another console leads"):
            upgrade_schema(server, "ledger")
    finally:
        leading.close()


def test_a_database_is_an_installs_once_something_is_written_there(server: Server, ledger: Database) -> None:
    make_database("empty_one")
    assert (is_set_up(server_of("empty_one")), holds_install(server_of("empty_one"))) == (False, False)
    assert (is_set_up(server), holds_install(server)) == (True, False)  # as a restore leaves it that was cut
    ledger.write_now(partial(add_fact, name="install", value="x"))
    assert (is_set_up(server), holds_install(server)) == (True, True)
