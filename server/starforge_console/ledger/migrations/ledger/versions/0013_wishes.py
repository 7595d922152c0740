"""Whose wish a stop or a pause is, and whether the job goes on by itself after it."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    op.add_column("jobs", sa.Column("wished_for", sa.Text(), nullable=True))
    op.add_column("jobs", sa.Column("goes_on", sa.Boolean(), nullable=False, server_default=sa.false()))
