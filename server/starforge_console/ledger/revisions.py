"""Which migrations a database has seen, and which of them this release knows."""

from pathlib import Path
from typing import Final

from sqlalchemy import Connection

from starforge import __version__
from starforge_console.errors import SettingsError

MIGRATIONS: Final = Path(__file__).with_name("migrations")
TABLE: Final = "alembic_version"


def is_current(connection: Connection, schema: str) -> bool:
    """Whether the newest migration of `schema` has run there.

    Raises:
        SettingsError: one has run that this release does not know.

    """
    known = _list_known(schema)
    found = _find(connection)
    if found is not None and found not in known:
        raise SettingsError(
            f"the {schema} is newer than this release, {__version__}",
            why=f"it was brought to revision {found}, and this release knows those up to {known[-1]}",
            next_step="run the release that served it last; an older one takes a backup that was made with it",
        )
    return found == known[-1]


def require_current(connection: Connection, schema: str) -> None:
    """Let nothing read or write tables of another release.

    Raises:
        SettingsError: the schema is another release's.

    """
    if not is_current(connection, schema):
        raise SettingsError(
            f"the {schema} is older than this release, {__version__}",
            why=f"it is at revision {_find(connection) or 'none'}, and this release's tables are those of"
            f" {_list_known(schema)[-1]}",
            next_step="restart the console with this release once: serving brings it up to date",
        )


def _find(connection: Connection) -> str | None:
    if not connection.dialect.has_table(connection, TABLE):
        return None
    found = connection.exec_driver_sql(f"SELECT version_num FROM {TABLE}").scalar()  # noqa: S608 - a name of ours
    return None if found is None else str(found)


def _list_known(schema: str) -> list[str]:
    """Files are named by their revisions, which are counted up."""
    return sorted(file.stem.partition("_")[0] for file in (MIGRATIONS / schema / "versions").glob("[0-9]*.py"))
