"""Where an administrator put a queued job, and how often it was passed."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    for name in ("ahead", "passed"):
        op.add_column("jobs", sa.Column(name, sa.Integer(), nullable=False, server_default="0"))
