"""Databases: how each of the two schemas is opened, brought up to date, read and written.

SQLite is the file's own business here; what PostgreSQL needs beside is in `starforge_console.ledger.postgres`.
"""

import asyncio
import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, select
from sqlalchemy.exc import DatabaseError, OperationalError
from sqlalchemy.pool import QueuePool

from starforge_console.errors import LedgerFailed, SettingsError
from starforge_console.ledger.place import Place, Server
from starforge_console.ledger.postgres import (
    Leader,
    explained,
    first_line,
    is_refused,
    nobody_leads,
    open_readers,
    open_writer,
    prepare_schema,
)
from starforge_console.ledger.revisions import MIGRATIONS, is_current
from starforge_console.ledger.revisions import TABLE as REVISIONS_TABLE
from starforge_console.ledger.tables import facts
from starforge_console.ledger.writer import Writer

READERS: Final = 4

T = TypeVar("T")


class Database:
    """One schema: a pool of readers, one writer.

    Coroutines await `read` and `write`; neither runs SQL on the event loop's thread. A closure gets a connection inside
    a transaction, must not keep it, and cannot await, so no transaction ever spans a wait. A closure that writes may be
    run again where the database could not keep what it did, so it does nothing else than write and answer.
    """

    def __init__(self, place: Place, schema: str, *, lead_lost: Callable[[], None] | None = None) -> None:
        """Open the schema; with `lead_lost` as the one console that leads it, called should another one lead later.

        For SQLite the lock of the state directory keeps others from leading.

        Raises:
            SettingsError: another console leads, or the server or the file cannot be used.

        """
        self._reader, self._writing = _open_engines(place, schema, lead_lost)
        self._next_step = (
            "look at the server of FORGE_DATABASE_URL"
            if isinstance(place, Server)
            else "look at the disk that holds FORGE_CONSOLE_STATE_DIR"
        )
        self._pool = ThreadPoolExecutor(READERS, thread_name_prefix=f"{schema}-reader")
        self._writer = Writer(self._writing, schema)

    async def read(self, work: Callable[[Connection], T]) -> T:
        """What `work` reads, in one transaction of its own."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, self.read_now, work)

    def read_now(self, work: Callable[[Connection], T]) -> T:
        """The same from a thread that may block."""
        try:
            with self._reader.connect() as connection, connection.begin():
                return work(connection)
        except OperationalError as error:
            if not is_refused(error):
                raise
            raise LedgerFailed("the ledger cannot be read", why=first_line(error), next_step=self._next_step) from error

    async def write(self, work: Callable[[Connection], T]) -> T:
        """What `work` answers, once its changes are on disk; what it raises, with none of them kept."""
        return await self._writer.submit_from_loop(work)

    def write_now(self, work: Callable[[Connection], T]) -> T:
        """The same from a thread that may block."""
        return self._writer.submit(work).result()

    def close(self) -> None:
        """Finish the writes that are queued and let go of the file."""
        self._writer.close()
        self._pool.shutdown(wait=True)
        self._reader.dispose()
        self._writing.dispose()


def upgrade_schema(place: Place, schema: str) -> None:
    """Bring the database at `place` to this version's `schema` (`ledger` or `series`), creating it when it is new.

    Raises:
        SettingsError: the server or the file cannot be used, a console leads what has to be brought up to date, or the
            schema is newer than this release.

    """
    engine = prepare_schema(place, schema) if isinstance(place, Server) else open_file(place, read_only=False)
    try:
        with _explained(place), engine.connect() as connection:
            current = is_current(connection, schema)
            connection.rollback()  # migrations begin and end their own transaction
        if current:
            return
        alone = nobody_leads(place, schema) if isinstance(place, Server) else contextlib.nullcontext()
        with _explained(place), alone, engine.connect() as connection:
            _upgrade(connection, schema)
    finally:
        engine.dispose()


def is_set_up(place: Place) -> bool:
    """Whether there are a console's tables. Raises SettingsError when the server cannot be asked."""
    return (
        _ask(place, lambda c: c.dialect.has_table(c, REVISIONS_TABLE)) if isinstance(place, Server) else place.exists()
    )


def holds_install(place: Place) -> bool:
    """Whether it is some install's already: tables alone are left by a restore that was cut. Raises as `is_set_up`."""
    if not isinstance(place, Server):
        return place.exists()  # a file is brought there whole
    return is_set_up(place) and _ask(place, lambda c: c.execute(select(facts.c.name).limit(1)).first() is not None)


def _ask(place: Server, question: Callable[[Connection], bool]) -> bool:
    engine = open_readers(place, "ledger", 1)
    try:
        with _explained(place), engine.connect() as connection:
            return question(connection)
    finally:
        engine.dispose()


def _upgrade(connection: Connection, schema: str) -> None:
    from alembic import command  # noqa: PLC0415 - a tenth of a start that most often has nothing to migrate
    from alembic.config import Config  # noqa: PLC0415 - the same

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS / schema))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
    connection.commit()


def lock_state(state_dir: Path) -> int:
    """Take the state directory for this process; the descriptor holds it until the process ends.

    Raises:
        SettingsError: another console runs on it.

    """
    descriptor = os.open(state_dir / "leader", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.read(descriptor, 32).decode(errors="replace").strip() or "unknown"
        os.close(descriptor)
        raise SettingsError(
            f"another console (process {holder}) runs on {state_dir}",
            why="two consoles on one SQLite ledger would both place jobs",
            next_step="stop that one, or give this one a FORGE_CONSOLE_STATE_DIR of its own",
        ) from None
    os.ftruncate(descriptor, 0)
    os.write(descriptor, str(os.getpid()).encode())
    return descriptor


def _open_engines(place: Place, schema: str, lead_lost: Callable[[], None] | None) -> tuple[Engine, Engine]:
    """(for readers, for the writer), whose one connection is open already.

    Two that open a file at once that has no write-ahead log yet would both make it one with, and one of them fails.
    """
    if isinstance(place, Server):
        writing = open_writer(place, schema, Leader(schema, lead_lost) if lead_lost else None)
    else:
        writing = open_file(place, read_only=False)
    try:
        with _explained(place), writing.connect():
            if isinstance(place, Server):
                return open_readers(place, schema, READERS), writing
            return open_file(place, read_only=True), writing
    except SettingsError:
        writing.dispose()
        raise


@contextlib.contextmanager
def _explained(place: Place) -> Iterator[None]:
    """Say of a server that cannot be reached, or a disk that refuses, what it takes. Raises SettingsError."""
    if isinstance(place, Server):
        with explained():
            yield
        return
    try:
        yield
    except DatabaseError as error:
        if not is_refused(error) and type(error) is not DatabaseError:  # which it is where the file is no database
            raise
        raise SettingsError(
            f"{place} cannot be used",
            why=first_line(error),
            next_step="see that its disk has room and can be written; in place of a damaged file, restore a backup",
        ) from error


def open_file(path: Path, *, read_only: bool) -> Engine:
    """Connections to a file of SQLite's: some that read, or the one that writes."""
    engine = create_engine(
        f"sqlite:///{path}",
        connect_args={"isolation_level": None, "check_same_thread": False, "timeout": 30},
        poolclass=QueuePool,
        pool_size=READERS if read_only else 1,
        max_overflow=0,
        # Of what is bound, secrets too would show in the text of an error.
        hide_parameters=True,
    )

    @event.listens_for(engine, "connect")
    def _set_up(connection: Any, _record: object) -> None:  # noqa: ANN401 - the driver's own connection
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "busy_timeout=30000"):
            connection.execute(f"PRAGMA {pragma}")
        if read_only:
            connection.execute("PRAGMA query_only=ON")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        if read_only:
            raw: Any = connection.connection.driver_connection
            raw.execute("BEGIN")  # touches no file, so cannot fail; by SQLAlchemy it costs as much as a short statement
        else:
            connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine
