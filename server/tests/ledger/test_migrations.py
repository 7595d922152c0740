"""A database that grew through the migrations is the one that the tables declare."""

from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import MetaData, create_engine

from starforge_console.ledger import tables
from starforge_console.ledger.database import upgrade_schema


@pytest.mark.parametrize(("schema", "metadata"), [("ledger", tables.ledger), ("series", tables.series)])
def test_the_migrations_lead_to_the_tables_as_they_are_declared(
    tmp_path: Path, schema: str, metadata: MetaData
) -> None:
    path = tmp_path / f"{schema}.db"
    upgrade_schema(path, schema)
    engine = create_engine(f"sqlite:///{path}")
    try:
        with engine.connect() as connection:
            differences = compare_metadata(MigrationContext.configure(connection), metadata)
    finally:
        engine.dispose()
    assert differences == []
