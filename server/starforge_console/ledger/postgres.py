"""PostgreSQL below a schema: how its connections are set up, what it must be, and who may write.

Whoever writes waits for a lock first, as BEGIN IMMEDIATE lets SQLite's writers wait. So transactions that write follow
one another, whichever process they are of: numbers of events are committed in their order, and no transaction sees half
of another. Each statement of such a transaction sees what was committed before it began (READ COMMITTED), and nothing
is committed meanwhile. Transactions that read see one moment throughout (REPEATABLE READ, read only) and never fail for
what others write.

The console that runs the loops leads: the session that it writes with holds a second lock for as long as it lasts.
"""

import contextlib
import hashlib
import sqlite3
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.pool import QueuePool

from starforge_console.errors import SettingsError
from starforge_console.ledger.place import Server

if TYPE_CHECKING:
    import psycopg

OLDEST: Final = 150_000
"""As the server counts its versions: 15.0."""
LEAD: Final = "lead"
WRITE: Final = "write"
_CONNECT_TIMEOUT_S: Final = 10
_LAST_SESSION_S: Final = 5.0
# The number of the console that led last is a sequence in each schema.
_MAKE_LEADERS: Final = "CREATE SEQUENCE IF NOT EXISTS leaders"
_NEXT_LEADER: Final = "SELECT setval('leaders', nextval('leaders'))"
"""Set once more: a sequence alone logs numbers ahead, and after a crash of the server it would stand at a later one."""
_LAST_LEADER: Final = "SELECT last_value FROM leaders"
_REPEATABLE: Final = frozenset({"40001", "40P01"})
"""Serialization failure, deadlock: nothing of the transaction was kept, and it may well succeed when it is repeated."""


def open_readers(server: Server, schema: str, size: int) -> Engine:
    """A pool of connections that read, each transaction at one moment.

    Raises:
        SettingsError: the driver is not installed.

    """
    engine = _open_engine(server, schema, size)

    @event.listens_for(engine, "connect")
    def _set_up(connection: Any, _record: object) -> None:  # noqa: ANN401 - the driver's own connection
        connection.execute("SET default_transaction_isolation = 'repeatable read'")
        connection.execute("SET default_transaction_read_only = on")
        connection.commit()

    return engine


class Leader:
    """The console that runs the loops, in one schema: no other leads while its session lasts."""

    def __init__(self, schema: str, lost: Callable[[], None] | None = None) -> None:
        """`lost` is called once another console leads in place of this one: nothing can be written any more."""
        self._schema = schema
        self._lost = lost
        self._number: int | None = None

    def take_lead(self, connection: "psycopg.Connection[Any]") -> None:
        """Let this session lead, and, where an earlier one of this console was lost, be sure that nobody led meanwhile.

        Raises:
            SettingsError: another console leads, or did since the session before: what this one remembers may be wrong.

        """
        deadline = time.monotonic() + _LAST_SESSION_S
        while not _ask(connection, f"SELECT pg_try_advisory_lock({_key(LEAD, self._schema)})"):
            if time.monotonic() > deadline:
                raise self._refusal()
            time.sleep(0.05)  # a process that was killed leads until the server has seen that it is gone
        if self._number is None:
            self._number = int(_ask(connection, _NEXT_LEADER))
        elif self._number != int(_ask(connection, _LAST_LEADER)):
            raise self._refusal()

    def _refusal(self) -> SettingsError:
        if self._number is not None and self._lost is not None:
            self._lost()
        return SettingsError(
            "another console leads the database of FORGE_DATABASE_URL",
            why="two consoles on one ledger would both place jobs",
            next_step="stop that one, or give this one a database of its own",
        )


def open_writer(server: Server, schema: str, leader: Leader | None = None) -> Engine:
    """One connection that writes, alone among all that write to the schema; as `leader` or not at all, where given."""
    engine = _open_engine(server, schema, 1)

    @event.listens_for(engine, "connect")
    def _set_up(connection: Any, _record: object) -> None:  # noqa: ANN401 - the driver's own connection
        connection.execute("SET default_transaction_isolation = 'read committed'")
        # What was answered must outlast the server; a server that waits for standbys, too, is left to.
        connection.execute(
            "SELECT set_config('synchronous_commit', 'on', false)"
            " WHERE current_setting('synchronous_commit') IN ('off', 'local')"
        )
        # A machine that went away without a word does not lead for hours.
        for name, value in (("idle", 30), ("interval", 10), ("count", 3)):
            connection.execute(f"SET tcp_keepalives_{name} = {value}")
        connection.commit()
        if leader is None:
            return
        try:
            leader.take_lead(connection)
        except BaseException:
            connection.close()
            raise

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_key(WRITE, schema)})")

    return engine


def prepare_schema(server: Server, schema: str) -> Engine:
    """An engine to migrate with; the schema is made when it is new.

    Raises:
        SettingsError: the server is too old, or its database is not one that texts are in order in.

    """
    engine = open_writer(server, schema)
    try:
        with explained(), engine.connect() as connection:
            _check_server(connection)
            connection.rollback()
            with connection.begin():
                # Asked for first: whoever may not create schemas can be given one that an administrator has made.
                if connection.exec_driver_sql(f"SELECT to_regnamespace('{schema}')").scalar() is None:
                    connection.exec_driver_sql(f'CREATE SCHEMA "{schema}"')
                connection.exec_driver_sql(_MAKE_LEADERS)
    except SettingsError:
        engine.dispose()
        raise
    return engine


@contextlib.contextmanager
def nobody_leads(server: Server, schema: str) -> Iterator[None]:
    """Keep every console from leading meanwhile. Raises SettingsError when one does."""
    with contextlib.closing(_find_driver(server, schema)()) as connection:
        Leader(schema).take_lead(connection)
        yield


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Say of a connection that fails what it takes, in place of the driver's words alone."""
    import psycopg  # noqa: PLC0415 - installed only where PostgreSQL is used
    from sqlalchemy.exc import DBAPIError  # noqa: PLC0415 - beside it

    try:
        yield
    except (psycopg.OperationalError, DBAPIError) as error:
        raise SettingsError(
            "the database of FORGE_DATABASE_URL cannot be used",
            why=first_line(error),
            next_step="see that the server runs, and that its user may connect and create schemas there",
        ) from error


def first_line(error: BaseException) -> str:
    """What went wrong, without the statement and the values that SQLAlchemy adds: values may be secrets."""
    text = str(getattr(error, "orig", None) or error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def is_refused(error: BaseException) -> bool:
    """Whether a disk or a server refused, of either kind, rather than that a statement of ours is wrong."""
    from sqlalchemy.exc import OperationalError  # noqa: PLC0415 - beside the driver

    wrong = sqlite3.SQLITE_ERROR  # SQLite names it an operational one too
    return isinstance(error, OperationalError) and getattr(error.orig, "sqlite_errorcode", None) != wrong


def is_cut(error: BaseException) -> bool:
    """Whether a disk or a server, of either kind, gave up under whoever worked with it: nothing of ours is wrong."""
    from sqlalchemy.exc import DatabaseError, InterfaceError, InternalError  # noqa: PLC0415 - beside the driver

    kinds = (sqlite3.Error, InterfaceError, InternalError)
    if is_refused(error) or isinstance(error, kinds) or type(error) is DatabaseError:  # a file that is none, or damaged
        return True
    try:
        import psycopg  # noqa: PLC0415 - installed only where PostgreSQL is used
    except ImportError:
        return False
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)


def is_repeatable(error: BaseException) -> bool:
    """Whether the transaction that failed so left nothing behind and may be run again."""
    return getattr(getattr(error, "orig", error), "sqlstate", None) in _REPEATABLE


def is_lost(connection: "psycopg.Connection[Any]") -> bool:
    """Whether the server ended the transaction that was open, or the session."""
    from psycopg.pq import TransactionStatus  # noqa: PLC0415 - installed only where PostgreSQL is used

    return connection.closed or connection.info.transaction_status in {
        TransactionStatus.IDLE,
        TransactionStatus.UNKNOWN,
    }


def _open_engine(server: Server, schema: str, size: int) -> Engine:
    connect = _find_driver(server, schema)
    return create_engine(
        "postgresql+psycopg://",
        creator=connect,
        poolclass=QueuePool,
        pool_size=size,
        max_overflow=0,
        pool_pre_ping=True,
        # Of what is bound, secrets too would show in the text of an error.
        hide_parameters=True,
    )


def _find_driver(server: Server, schema: str) -> Callable[[], Any]:
    try:
        import psycopg  # noqa: PLC0415 - installed only where PostgreSQL is used
        from psycopg.types.string import StrDumper  # noqa: PLC0415 - the same
    except ImportError as error:
        raise SettingsError(
            "FORGE_DATABASE_URL names a PostgreSQL server, and its driver is not installed",
            why=str(error),
            next_step="run 'pip install \"psycopg[binary]\"' where the console is installed",
        ) from error

    class Text(StrDumper):
        """Texts as they are, but for the one character that PostgreSQL keeps in none."""

        def dump(self, obj: str) -> Any:  # noqa: ANN401 - the driver's buffer
            return super().dump(obj.replace("\0", "\N{REPLACEMENT CHARACTER}") if "\0" in obj else obj)

    def connect() -> Any:  # noqa: ANN401 - the driver's own connection
        connection = psycopg.connect(
            server.url.reveal(),
            connect_timeout=_CONNECT_TIMEOUT_S,
            application_name=f"starforge-console {schema}",
            client_encoding="UTF8",  # of a database in SQL_ASCII, the driver would give texts as bytes otherwise
        )
        connection.adapters.register_dumper(str, Text)
        connection.execute(f'SET search_path = "{schema}"')
        connection.commit()
        return connection

    return connect


def _ask(connection: "psycopg.Connection[Any]", question: str) -> Any:  # noqa: ANN401 - whatever it answers
    row = connection.execute(question).fetchone()
    connection.commit()
    return None if row is None else row[0]


def _check_server(connection: Connection) -> None:
    version = int(connection.exec_driver_sql("SHOW server_version_num").scalar() or 0)
    if version < OLDEST:
        raise SettingsError(
            f"the server of FORGE_DATABASE_URL is PostgreSQL {version // 10_000}",
            why=f"the ledger needs {OLDEST // 10_000} or newer",
            next_step="name a newer server",
        )
    found = connection.exec_driver_sql(
        "SELECT pg_encoding_to_char(encoding), datcollate, datctype FROM pg_database WHERE datname = current_database()"
    ).one()
    if found[0] != "UTF8" or set(found[1:]) - {"C", "C.UTF-8", "C.utf8", "POSIX"}:
        raise SettingsError(
            f"the database of FORGE_DATABASE_URL has encoding {found[0]} and collation {found[1]}",
            why="lists of the console are in the order of bytes, whichever database they come from",
            next_step="make one with \"CREATE DATABASE name ENCODING 'UTF8' LOCALE 'C' TEMPLATE template0\"",
        )


def _key(purpose: str, schema: str) -> int:
    """A lock's number, the same in every release."""
    digest = hashlib.sha256(f"starforge {schema} {purpose}".encode()).digest()
    return int.from_bytes(digest[:8], signed=True)
