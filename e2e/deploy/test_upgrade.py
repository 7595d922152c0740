"""The documented steps of an upgrade and of the way back, to the letter, while a job runs."""

from pathlib import Path

import pytest

from e2e.support.console import wait_for
from e2e.support.deployed import PROGRAM, SETTINGS, DeployedConsole, build_wheels, copy_release
from e2e.support.images import HOST_IMAGE
from e2e.support.projects import make_experiment
from e2e.support.steps import load_steps

pytestmark = [
    pytest.mark.engine,
    pytest.mark.timeout(600),
    pytest.mark.allow_hosts(["127.0.0.1", "10.213.0.0/16"]),
]

HELD = 'touch "$FORGE_OUT_DIR/waiting"; until [ -e "$FORGE_OUT_DIR/release" ]; do sleep 0.1; done'
MIGRATION = '''"""A table of the next release."""

import sqlalchemy as sa
from alembic import op

revision = "9001"
down_revision = "{before}"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table("of_the_next_release", sa.Column("id", sa.Integer(), primary_key=True))
'''


@pytest.fixture(scope="module")
def next_wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release whose ledger has a table more."""
    folder = tmp_path_factory.mktemp("next")
    sources = copy_release(folder / "sources", "0.1.1+forge")
    versions = sources / "server/starforge_console/ledger/migrations/ledger/versions"
    newest = max(file.stem.partition("_")[0] for file in versions.glob("[0-9]*.py"))
    (versions / "9001_next.py").write_text(MIGRATION.format(before=newest), encoding="utf-8")
    return build_wheels(sources, folder / "wheels")


def load_revision(deployed: DeployedConsole) -> str:
    ledger, query = "/var/lib/starforge/ledger.db", "SELECT version_num FROM alembic_version"
    ask = f"import sqlite3; print(sqlite3.connect('{ledger}').execute('{query}').fetchone()[0])"
    return deployed.shell(f'python3 -c "{ask}"').strip()


def test_a_job_goes_on_through_the_upgrade_and_through_the_way_back(
    deployed: DeployedConsole, wheels: Path, next_wheels: Path, tmp_path: Path
) -> None:
    deployed.add_wheels(wheels, "old")
    deployed.add_wheels(next_wheels, "new")
    deployed.put_settings()
    for step in load_steps("install.md", "systemd"):
        deployed.shell(step.replace("wheels/new", "wheels/old"))
    deployed.wait_until_up()
    before = load_revision(deployed)
    console = deployed.client(tmp_path / "client")
    experiment = make_experiment(console, HOST_IMAGE, HELD)
    job = experiment.submit(profile="l40s:1")
    out = deployed.storage / "runs" / job / "out"
    experiment.wait_state(job, "RUNNING")
    wait_for((out / "waiting").exists, "the job's script to wait")
    containers = [one["Id"] for one in deployed.machine.engine.engine.list_containers("forge.attempt")]

    for step in load_steps("upgrade.md", "upgrade"):
        deployed.shell(step)
    deployed.wait_until_up()
    assert deployed.shell(f"{PROGRAM} version").strip() == "0.1.1+forge"
    assert load_revision(deployed) == "9001"
    assert experiment.state(job) == "RUNNING"
    second = experiment.submit(profile="l40s:1")
    experiment.wait_state(second, "RUNNING")

    deployed.shell("/opt/starforge/venv/bin/pip install /opt/starforge/wheels/old/*.whl")
    refused = deployed.machine.run(
        "bash", "-c", f"set -a; . {SETTINGS}; set +a; systemctl stop starforge-console; {PROGRAM} serve"
    )
    assert refused.returncode == 2
    assert "the ledger is newer than this release" in refused.stderr

    for step in load_steps("upgrade.md", "back"):
        deployed.shell(step)
    deployed.wait_until_up()
    assert deployed.shell(f"{PROGRAM} version").strip() == "0.1.0+forge"
    assert load_revision(deployed) == before
    running = [one["Id"] for one in deployed.machine.engine.engine.list_containers("forge.attempt")]
    assert set(containers) < set(running)
    (out / "release").touch()
    ended = experiment.wait_end(job)
    assert (ended["job"]["state"], len(ended["attempts"])) == ("SUCCEEDED", 1)
