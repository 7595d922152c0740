"""Whether a fleet takes only jobs with a time limit."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    op.add_column("fleets", sa.Column("requires_limit", sa.Boolean(), nullable=False, server_default=sa.false()))
