"""A plugin of pytest: the run starts a real PostgreSQL, and the tests' databases lie there instead of in files."""

import os
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from server.tests.databases import SCHEMAS, SERVER, TEMPLATE, drop_databases, make_database, server_of, url_of
from server.tests.postgres_server import PostgresServer
from starforge_console.ledger.database import upgrade_schema

_RUN = pytest.StashKey[PostgresServer]()


def pytest_configure(config: pytest.Config) -> None:
    """The first process of the run starts the server; those that it starts find its name."""
    if SERVER in os.environ:
        return
    server = PostgresServer()
    config.stash[_RUN] = server
    os.environ[SERVER] = str(server.folder)
    make_database(TEMPLATE)
    for schema in SCHEMAS:
        upgrade_schema(server_of(TEMPLATE), schema)
    with psycopg.connect(url_of("postgres"), autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {TEMPLATE} IS_TEMPLATE true")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Whoever started the server ends it."""
    server = config.stash.get(_RUN, None)
    if server is not None:
        del os.environ[SERVER]
        server.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """What a test made goes with it: databases are files, and hundreds of them fill a disk."""
    folder = getattr(item, "funcargs", {}).get("tmp_path")
    yield
    if isinstance(folder, Path):
        drop_databases(folder)
