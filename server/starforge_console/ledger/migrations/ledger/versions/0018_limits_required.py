"""Whether a fleet takes only jobs with a time limit."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    op.add_column("fleets", sa.Column("requires_limit", sa.Boolean(), nullable=False, server_default=sa.false()))
