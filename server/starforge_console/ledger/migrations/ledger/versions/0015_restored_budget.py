"""What a job was given to retry with, and the newest checkpoint for which it was given it anew."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision: a job that is there is given no more than it has left."""
    op.add_column("jobs", sa.Column("retries_given", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("jobs", sa.Column("restored_at_step", sa.BigInteger()))
    op.execute("UPDATE jobs SET retries_given = retries_left")
