"""Sign-ins by a code: what they were approved with, which bounds the token that they are answered with."""

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    op.add_column("device_codes", sa.Column("opened_by", sa.Integer(), nullable=True))
    op.add_column("device_codes", sa.Column("ends_at", sa.Float(), nullable=True))
