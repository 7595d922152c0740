"""An index that alone says which queued jobs have changed: a pass of a long queue reads nothing else of the others."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    queued = sa.text("state = 'QUEUED'")
    columns = ["state", "id", "version", "ahead", "passed"]
    name = "ix_jobs_state_id_version_ahead_passed"
    op.create_index(name, "jobs", columns, sqlite_where=queued, postgresql_where=queued)
