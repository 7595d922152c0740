"""Where a test's databases lie: files below its folder, or a database of its own on the server that the run started.

Either is migrated once and copied, since migrations would take most of a test's time. A run with `-p
server.tests.on_postgres` starts a real PostgreSQL and names it in the environment, so that the processes that tests
start find the same databases.
"""

import hashlib
import os
import sqlite3
import tempfile
from contextlib import closing
from functools import cache
from pathlib import Path

import psycopg
import pytest

from starforge.contract.launch import Secret
from starforge_console.ledger.database import Database, upgrade_schema
from starforge_console.ledger.place import Place, Server

SERVER = "STARFORGE_TEST_POSTGRES"
"""Holds the folder of the server's socket; unset where tests run on SQLite."""
TEMPLATE = "migrated"
SCHEMAS = ("ledger", "series")

_made: dict[str, Path] = {}


def is_postgres() -> bool:
    return SERVER in os.environ


sqlite_only = pytest.mark.skipif(is_postgres(), reason="it is about SQLite's own files")
"""For tests that look at a file, a pragma or a plan of SQLite's."""


def open_database(folder: Path, schema: str) -> Database:
    """The database of a test whose folder this is, brought up to date."""
    return Database(make_place(folder / f"{schema}.db", schema), schema)


def make_place(file: Path, schema: str) -> Place:
    """Where the schema lies that SQLite would keep in `file`, brought up to date."""
    is_new = file.parent not in _made.values() if is_postgres() else not file.exists()
    place = place_of(file)
    if not is_new:
        upgrade_schema(place, schema)
    elif isinstance(place, Path):
        place.write_bytes(empty_database(schema))
    return place


def place_of(file: Path) -> Place:
    """Where it lies, as it is; a server's new database has both schemas, empty."""
    return _find_place(file, TEMPLATE)


def empty_place(file: Path) -> Place:
    """Where a schema lies that is still to be made."""
    return _find_place(file, "template0")


@cache
def empty_database(schema: str) -> bytes:
    """A file of `schema`, `ledger` or `series`, with nothing in it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{schema}.db"
        upgrade_schema(path, schema)
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return path.read_bytes()


def read_stored(folder: Path) -> bytes:
    """All that the databases of `folder` keep, as a thief of their files would read it."""
    if not is_postgres():
        return b"".join(file.read_bytes() for file in sorted(folder.glob("*.db*")))
    place = place_of(folder / "ledger.db")
    assert isinstance(place, Server)
    kept = []
    with psycopg.connect(place.url.reveal()) as connection:
        names = "SELECT schemaname, tablename FROM pg_tables WHERE schemaname = ANY(%s)"
        for schema, table in connection.execute(names, (list(SCHEMAS),)).fetchall():
            for row in connection.execute(f'SELECT * FROM "{schema}"."{table}"').fetchall():  # noqa: S608 - tables of ours
                kept += [value if isinstance(value, bytes) else str(value).encode() for value in row]
    return b"\n".join(kept)


def server_of(name: str) -> Server:
    return Server(Secret(url_of(name)))


def url_of(name: str) -> str:
    return f"postgresql:///{name}?host={os.environ[SERVER]}&user=starforge"


def make_database(name: str, template: str = "template0") -> None:
    """Make it unless it is there."""
    with psycopg.connect(url_of("postgres"), autocommit=True) as connection:
        if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone() is None:
            terms = f"ENCODING 'UTF8' LOCALE 'C' TEMPLATE {template} STRATEGY FILE_COPY"
            connection.execute(f"CREATE DATABASE {name} {terms}")


def drop_databases(folder: Path) -> None:
    """Drop what this process made for `folder` and what lies below it."""
    gone = [name for name, owner in _made.items() if owner.is_relative_to(folder)]
    if not gone:
        return
    with psycopg.connect(url_of("postgres"), autocommit=True) as connection:
        for name in gone:
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
            del _made[name]


def _find_place(file: Path, template: str) -> Place:
    if not is_postgres():
        return file
    name = "t" + hashlib.sha256(str(file.parent).encode()).hexdigest()[:24]
    if name not in _made:
        make_database(name, template)
        _made[name] = file.parent
    return server_of(name)
