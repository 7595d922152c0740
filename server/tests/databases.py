"""The databases of a test: migrated once in a process and copied, since migrations would take most of its time."""

import sqlite3
import tempfile
from contextlib import closing
from functools import cache
from pathlib import Path

from starforge_console.ledger.database import Database, upgrade_schema


def open_database(folder: Path, schema: str) -> Database:
    """The database of a test whose folder this is, brought up to date."""
    path = folder / f"{schema}.db"
    if path.exists():
        upgrade_schema(path, schema)
    else:
        path.write_bytes(empty_database(schema))
    return Database(path, schema)


@cache
def empty_database(schema: str) -> bytes:
    """A file of `schema`, `ledger` or `series`, with nothing in it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{schema}.db"
        upgrade_schema(path, schema)
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return path.read_bytes()
