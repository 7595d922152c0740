"""Databases of another release: a newer one is left alone, an older one is brought up to date by serving alone."""

from pathlib import Path

import pytest
from sqlalchemy import text

from server.tests.databases import empty_place, make_place
from server.tests.ledger.older import open_engine, upgrade_to
from starforge_console.errors import SettingsError
from starforge_console.ledger.copying import copy_out
from starforge_console.ledger.database import Database, upgrade_schema
from starforge_console.ledger.place import Place
from starforge_console.ledger.revisions import MIGRATIONS, require_current
from starforge_console.ledger.schemas import SCHEMAS

NEWER = "9999"


def make_newer(place: Place, schema: str) -> None:
    """As a release to come leaves it: a revision that nobody knows here, and a table of its own."""
    with open_engine(place, schema) as engine, engine.begin() as connection:
        connection.execute(text("CREATE TABLE to_come (name TEXT)"))
        connection.execute(text("UPDATE alembic_version SET version_num = :it"), {"it": NEWER})


def read_all(place: Place, schema: str) -> dict[str, list[str]]:
    """Every row of every table, those of a release to come too."""
    names = [*SCHEMAS[schema].tables, "alembic_version", "to_come"]
    with open_engine(place, schema) as engine, engine.connect() as connection:
        return {name: [repr(row) for row in connection.execute(text(f"SELECT * FROM {name}"))] for name in names}  # noqa: S608 - tables of ours


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_newer_one_is_refused_in_words_and_left_as_it_is(tmp_path: Path, schema: str) -> None:
    place = make_place(tmp_path / f"{schema}.db", schema)
    make_newer(place, schema)
    before = read_all(place, schema)
    with pytest.raises(SettingsError, match=f"the {schema} is newer than this release") as refused:
        upgrade_schema(place, schema)
    assert NEWER in refused.value.why
    assert "release that served it last" in refused.value.next_step
    database = Database(place, schema)
    try:
        with pytest.raises(SettingsError, match="is newer than this release"):
            database.read_now(lambda c: require_current(c, schema))
    finally:
        database.close()
    assert read_all(place, schema) == before


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_newer_one_is_not_copied_as_if_it_were_ours(tmp_path: Path, schema: str) -> None:
    places = {name: make_place(tmp_path / f"{name}.db", name) for name in SCHEMAS}
    make_newer(places[schema], schema)
    (tmp_path / "copy").mkdir()
    with pytest.raises(SettingsError, match=f"the {schema} is newer than this release"):
        copy_out(places, tmp_path / "copy")


@pytest.mark.parametrize("schema", SCHEMAS)
def test_what_does_not_serve_refuses_an_older_one_too_until_it_was_served(tmp_path: Path, schema: str) -> None:
    place = empty_place(tmp_path / f"{schema}.db")
    first = min(file.stem.partition("_")[0] for file in (MIGRATIONS / schema / "versions").glob("[0-9]*.py"))
    with open_engine(place, schema) as engine, engine.connect() as connection:
        upgrade_to(connection, schema, first)
    database = Database(place, schema)
    try:
        with pytest.raises(SettingsError, match="is older than this release") as refused:
            database.read_now(lambda c: require_current(c, schema))
        assert "restart the console" in refused.value.next_step
        upgrade_schema(place, schema)
        database.read_now(lambda c: require_current(c, schema))
    finally:
        database.close()
