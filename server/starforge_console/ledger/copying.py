"""Whole schemas, copied out of a database that is at work, and into one that is empty.

A copy is a file of SQLite's whatever it was copied from, so that a backup of one kind can be restored as the other.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from sqlalchemy import (
    Connection,
    Engine,
    Integer,
    MetaData,
    Table,
    column,
    delete,
    func,
    insert,
    literal_column,
    select,
    table,
    text,
)

from starforge_console.errors import LedgerFailed, SettingsError
from starforge_console.ledger.database import open_file, upgrade_schema
from starforge_console.ledger.place import Place, Server
from starforge_console.ledger.postgres import first_line, is_cut, nobody_leads, open_readers, prepare_schema
from starforge_console.ledger.revisions import require_current
from starforge_console.ledger.schemas import SCHEMAS
from starforge_console.ledger.tables import events

ROWS_AT_ONCE: Final = 500
_NUMBERS: Final = table("sqlite_sequence", column("name"), column("seq"))
"""SQLite's own: the highest number that each table ever gave."""


def copy_out(places: Mapping[str, Place], folder: Path) -> None:
    """Write `<schema>.db` of each schema into `folder`, each as it was at one moment, while others write.

    The ledger's moment is not after that of the series: what the ledger says was read to its end is in the series.

    Raises:
        SettingsError: a schema is not this release's.
        OSError, or what `cut_short` takes: a disk refuses, or the server went away.

    """
    with contextlib.ExitStack() as stack:
        sources = {name: stack.enter_context(_open_source(places[name], name)) for name in ("ledger", "series")}
        if all(isinstance(places[name], Server) for name in sources):
            _share_moment(sources["ledger"], sources["series"])
        for name, source in sources.items():
            require_current(source, name)
            target = folder / f"{name}.db"
            os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            if isinstance(places[name], Server):
                upgrade_schema(target, name)
                with contextlib.closing(_Target(target)) as copied:
                    copied.fill(source, SCHEMAS[name])
            else:
                _copy_file(source, target)
            settle_file(target)


def copy_in(file: Path, place: Place, schema: str) -> None:
    """Fill the schema at `place`, which holds no job yet, from a copy that is of this release.

    Raises:
        SettingsError: a console leads there, or the server cannot be used.
        OSError, or what `cut_short` takes: a disk refuses, or the server went away.

    """
    if not isinstance(place, Server):
        os.replace(file, place)  # noqa: PTH105 - the name of what it does
        return
    upgrade_schema(place, schema)
    metadata, writing = SCHEMAS[schema], prepare_schema(place, schema)
    try:
        with nobody_leads(place, schema), contextlib.closing(_Source(file)) as source, writing.begin() as target:
            for one in reversed(metadata.sorted_tables):
                # Of a restore that was cut. The audit log lets nobody delete, not even nothing, and is empty here.
                if target.execute(select(one).limit(1)).first() is not None:
                    target.execute(delete(one))
            for one in metadata.sorted_tables:
                for rows in source.read(one):
                    target.execute(insert(one), rows)
            _set_sequences(source.connection, target, metadata)
    finally:
        writing.dispose()


@contextlib.contextmanager
def cut_short(what: str, next_step: str) -> Iterator[None]:
    """Say of a disk that is full, or of a server that goes away in the middle, what it takes. Raises LedgerFailed."""
    try:
        yield
    except Exception as error:
        if not is_cut(error):
            raise
        raise LedgerFailed(what, why=first_line(error), next_step=next_step) from error


def settle_file(file: Path) -> None:
    """Bring all of a database that nobody else has open into its one file, and check it.

    Raises:
        SettingsError: it is damaged.

    """
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA journal_mode=DELETE")
        try:
            found = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        except sqlite3.DatabaseError as error:
            found = str(error)
    if found != "ok":
        raise SettingsError(f"{file} is damaged", why=found, next_step="take another backup")


def skip_event_numbers(connection: Connection, count: int) -> None:
    """Let the next event, in a file, get a number that is `count` higher than it would be."""
    _skip_numbers(connection, events, count)


def _skip_numbers(connection: Connection, of: Table, count: int) -> None:
    mine = _NUMBERS.c.name == of.name
    known = int(connection.execute(select(_NUMBERS.c.seq).where(mine)).scalar() or 0)
    connection.execute(delete(_NUMBERS).where(mine))
    connection.execute(insert(_NUMBERS), {"name": of.name, "seq": known + count})


class _Source:
    """A file that is read table by table."""

    def __init__(self, file: Path) -> None:
        self._engine = open_file(file, read_only=True)
        self.connection = self._engine.connect()

    def read(self, one: Table) -> Iterator[Sequence[dict[str, Any]]]:
        return _read(self.connection, one)

    def close(self) -> None:
        self.connection.close()
        self._engine.dispose()


class _Target:
    """A new file that is filled, all of it or nothing."""

    def __init__(self, file: Path) -> None:
        self._engine: Engine = open_file(file, read_only=False)

    def fill(self, source: Connection, metadata: MetaData) -> None:
        with self._engine.begin() as target:
            for one in metadata.sorted_tables:
                for rows in _read(source, one):
                    target.execute(insert(one), rows)
            for one in _list_numbered(metadata):
                if one.dialect_options["sqlite"]["autoincrement"]:
                    target.execute(delete(_NUMBERS).where(_NUMBERS.c.name == one.name))
                    _skip_numbers(target, one, _find_last(source, one))

    def close(self) -> None:
        self._engine.dispose()


@contextlib.contextmanager
def _open_source(place: Place, schema: str) -> Iterator[Connection]:
    engine = open_readers(place, schema, 1) if isinstance(place, Server) else open_file(place, read_only=True)
    try:
        with engine.connect() as connection, connection.begin():
            yield connection
    finally:
        engine.dispose()


def _share_moment(first: Connection, second: Connection) -> None:
    moment = first.exec_driver_sql("SELECT pg_export_snapshot()").scalar_one()
    second.exec_driver_sql(f"SET TRANSACTION SNAPSHOT '{moment}'")


def _copy_file(source: Connection, target: Path) -> None:
    raw: Any = source.connection.driver_connection
    with contextlib.closing(sqlite3.connect(target)) as copied:
        raw.backup(copied)  # all pages in one go: whoever writes meanwhile goes on in the write-ahead log


def _read(connection: Connection, one: Table) -> Iterator[Sequence[dict[str, Any]]]:
    streaming = connection.execution_options(yield_per=ROWS_AT_ONCE)
    for rows in streaming.execute(select(one)).mappings().partitions(ROWS_AT_ONCE):
        yield [dict(row) for row in rows]


def _list_numbered(metadata: MetaData) -> list[Table]:
    """The tables whose rows the database numbers by itself."""
    return [one for one in metadata.sorted_tables if one.autoincrement_column is not None]


def _set_sequences(source: Connection, target: Connection, metadata: MetaData) -> None:
    numbered = _list_numbered(metadata)
    if not numbered:
        return  # then the file has no table of numbers
    told = {row.name: int(row.seq) for row in source.execute(select(_NUMBERS))}
    for one in numbered:
        newest = target.execute(select(func.max(one.autoincrement_column))).scalar() or 0
        last = max(int(newest), told.get(one.name, 0))
        if last:
            target.execute(select(func.setval(_sequence_of(target, one), last)))


def _find_last(source: Connection, one: Table) -> int:
    sequence = text(_sequence_of(source, one))
    return int(source.execute(select(literal_column("last_value", Integer)).select_from(sequence)).scalar_one())


def _sequence_of(connection: Connection, one: Table) -> str:
    (key,) = one.primary_key.columns
    named = {"table": one.name, "column": key.name}
    return str(connection.execute(text("SELECT pg_get_serial_sequence(:table, :column)"), named).scalar_one())
