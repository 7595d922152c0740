"""How many lines end before each segment of a log."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision. Segments that are there are counted when somebody asks for a line of their log."""
    op.add_column("log_segments", sa.Column("lines_before", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    """Undo this revision."""
    op.drop_column("log_segments", "lines_before")
