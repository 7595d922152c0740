"""Databases as an older version left them."""

from collections.abc import Iterator
from contextlib import contextmanager

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Engine, MetaData, insert, select

from starforge_console.ledger import database
from starforge_console.ledger.place import Place, Server
from starforge_console.ledger.postgres import prepare_schema
from starforge_console.ledger.revisions import MIGRATIONS


@contextmanager
def open_engine(place: Place, schema: str) -> Iterator[Engine]:
    engine = prepare_schema(place, schema) if isinstance(place, Server) else database.open_file(place, read_only=False)
    try:
        yield engine
    finally:
        engine.dispose()


def upgrade_to(connection: Connection, schema: str, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS / schema))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)
    connection.commit()


def copy_older(newer: Place, older: Place, schema: str, revision: str) -> None:
    """Fill the empty place `older` with what a console of `revision` had kept of the rows in `newer`."""
    with open_engine(newer, schema) as source, open_engine(older, schema) as target:
        with target.connect() as written:
            upgrade_to(written, schema, revision)
        tables = MetaData()
        with source.connect() as read, target.connect() as written:
            tables.reflect(written)
            for table in tables.sorted_tables:
                if table.name == "alembic_version":
                    continue
                rows = [dict(row) for row in read.execute(select(table)).mappings()]
                if rows:
                    written.execute(insert(table), rows)
            written.commit()
