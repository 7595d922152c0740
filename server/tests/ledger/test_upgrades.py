"""From nothing and from every older schema, with a row in each of its tables, to the tables as they are declared."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Boolean, Connection, Float, Integer, LargeBinary, MetaData, insert, select

from server.tests.databases import empty_place
from server.tests.ledger.older import open_engine, upgrade_to
from starforge_console.ledger import tables
from starforge_console.ledger.database import upgrade_schema
from starforge_console.ledger.revisions import MIGRATIONS
from starforge_console.ledger.schemas import SCHEMAS

DIGEST: Final = "sha256:" + "0" * 64
TEXTS: Final = {
    ("jobs", "spec"): f'{{"spec": {{"workspace": {{"digest": "{DIGEST}"}}}}}}',
    ("attempts", "outputs"): "{}",
    ("jobs", "pools"): '[{"name": "a", "nodes": 1}]',
}


def list_revisions() -> Iterator[tuple[str, str]]:
    for schema in SCHEMAS:
        for file in sorted((MIGRATIONS / schema / "versions").glob("[0-9]*.py")):
            yield schema, file.stem.partition("_")[0]


def build_value(table: str, column: Any) -> Any:
    if (table, column.name) in TEXTS:
        return TEXTS[table, column.name]
    for kind, value in ((Boolean, True), (Float, 1.5), (Integer, 1), (LargeBinary, b"x")):
        if isinstance(column.type, kind):
            return value
    return "x"


def fill(connection: Connection) -> dict[str, dict[str, Any]]:
    """One row in each table, which refer to one another where they can."""
    reflected = MetaData()
    reflected.reflect(connection)
    rows = {}
    for table in reflected.sorted_tables:
        if table.name != "alembic_version":
            rows[table.name] = {column.name: build_value(table.name, column) for column in table.columns}
            connection.execute(insert(table), rows[table.name])
    connection.commit()
    return rows


@pytest.mark.parametrize(("schema", "revision"), [*list_revisions()])
def test_an_older_database_keeps_its_rows_and_gets_the_tables_as_they_are_declared(
    tmp_path: Path, schema: str, revision: str
) -> None:
    place = empty_place(tmp_path / f"{schema}.db")
    with open_engine(place, schema) as engine:
        with engine.connect() as connection:
            upgrade_to(connection, schema, revision)
        with engine.connect() as connection:
            before = fill(connection)
    upgrade_schema(place, schema)
    with open_engine(place, schema) as engine, engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), SCHEMAS[schema]) == []
        connection.rollback()
        for name, row in before.items():
            (kept,) = connection.execute(select(SCHEMAS[schema].tables[name])).mappings().all()
            assert {column: kept[column] for column in row} == row
        if schema == "ledger":
            (found,) = connection.execute(select(tables.jobs.c.workspace)).scalars().all()
            assert found == (DIGEST if revision < "0009" else "x")


@pytest.mark.parametrize("schema", SCHEMAS)
def test_an_empty_database_gets_the_tables_as_they_are_declared(tmp_path: Path, schema: str) -> None:
    place = empty_place(tmp_path / f"{schema}.db")
    for _ in range(2):
        upgrade_schema(place, schema)
        with open_engine(place, schema) as engine, engine.connect() as connection:
            assert compare_metadata(MigrationContext.configure(connection), SCHEMAS[schema]) == []
