"""A database that grew through the migrations is the one that the tables declare."""

import subprocess
import sys
from array import array
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import MetaData, create_engine, update

from server.tests.databases import empty_place, place_of
from server.tests.ledger.builders import open_ledger, queued, submit
from server.tests.ledger.older import copy_older
from starforge_console.domain.points import Columns
from starforge_console.ledger import (
    kept_tables,
    tables,
)
from starforge_console.ledger.database import Database, upgrade_schema
from starforge_console.ledger.points import add_points
from starforge_console.ledger.revisions import MIGRATIONS
from starforge_console.ledger.schemas import SCHEMAS
from starforge_console.ledger.steps import load_steps


@pytest.mark.parametrize(("schema", "metadata"), SCHEMAS.items())
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


@pytest.mark.parametrize("schema", ["ledger", "series"])
def test_each_migration_is_a_file_that_begins_with_its_revision_and_the_last_one_is_the_head(schema: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS / schema))
    scripts = ScriptDirectory.from_config(config)
    files = sorted(file.stem for file in (MIGRATIONS / schema / "versions").glob("*.py"))
    revisions = sorted(script.revision for script in scripts.walk_revisions())
    assert [file.partition("_")[0] for file in files] == revisions
    assert scripts.get_current_head() == revisions[-1]


def test_a_database_that_is_up_to_date_is_opened_without_the_migrations(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    upgrade_schema(path, "ledger")
    program = (
        "import sys\nfrom pathlib import Path\nfrom starforge_console.ledger.database import upgrade_schema\n"
        f"upgrade_schema(Path({str(path)!r}), 'ledger')\nsys.exit('alembic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_an_older_database_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    upgrade_schema(path, "ledger")
    engine = create_engine(f"sqlite:///{path}")
    try:
        with engine.begin() as connection:
            tables.ledger.drop_all(connection)
            connection.exec_driver_sql("DELETE FROM alembic_version")
        upgrade_schema(path, "ledger")
        with engine.connect() as connection:
            assert compare_metadata(MigrationContext.configure(connection), tables.ledger) == []
    finally:
        engine.dispose()


def test_the_jobs_of_an_older_install_have_the_step_of_their_newest_attempt(tmp_path: Path) -> None:
    path = tmp_path / "series.db"
    upgrade_schema(path, "series")
    series = Database(path, "series")
    try:
        told = [("j", 1, "loss", 90), ("j", 2, "loss", 30), ("j", 2, "loss", 40), ("other", 1, "loss", 5)]
        # By the clock, as the runner measures the machine: no step of the training.
        told += [("j", 3, "system/cpu_percent", 1_796_037_210), ("idle", 1, "system/cpu_percent", 1_796_037_211)]
        for job, attempt, key, step in told:
            columns = Columns(array("q", [step]), array("d", [0.5]), array("d", [1.0]))
            series.write_now(lambda c: add_points(c, job, attempt, {key: columns}))  # noqa: B023 - called at once
        series.write_now(kept_tables.job_steps.drop)
        series.write_now(lambda c: c.exec_driver_sql("UPDATE alembic_version SET version_num = '0004'"))
        upgrade_schema(path, "series")
        assert series.read_now(lambda c: load_steps(c, ["j", "other", "idle"])) == {"j": 40, "other": 5}
    finally:
        series.close()


def test_the_pools_of_an_older_ledger_get_names(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        job = ledger.write_now(submit)
        nameless = '[{"nodes": 1, "gpus_per_node": 2, "series": null, "cpus": null, "memory_bytes": null}]'

        ledger.write_now(lambda c: c.execute(update(tables.jobs).values(pools=nameless)))
    older = tmp_path / "older"
    older.mkdir()
    copy_older(place_of(tmp_path / "ledger.db"), empty_place(older / "ledger.db"), "ledger", "0002")
    with open_ledger(older) as ledger:
        (pool,) = ledger.read_now(lambda c: queued(c, job)).pools
        assert (pool.name, pool.gpus_per_node) == ("pool0", 2)
