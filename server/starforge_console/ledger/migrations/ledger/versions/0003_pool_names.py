"""A job's pools keep their names."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    jobs = sa.table("jobs", sa.column("id", sa.String), sa.column("pools", sa.Text))
    connection = op.get_bind()
    for job, text in connection.execute(sa.select(jobs.c.id, jobs.c.pools)).all():
        named = [{"name": f"pool{index}"} | pool for index, pool in enumerate(json.loads(text))]
        connection.execute(sa.update(jobs).where(jobs.c.id == job).values(pools=json.dumps(named)))
