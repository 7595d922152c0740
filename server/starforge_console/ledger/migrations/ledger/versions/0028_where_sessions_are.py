"""Where a page session was opened, with which browser, and when it was used last."""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision: of sessions of before nothing of it is known."""
    op.add_column("tokens", sa.Column("peer", sa.Text(), nullable=True))
    op.add_column("tokens", sa.Column("agent", sa.Text(), nullable=True))
    op.add_column("tokens", sa.Column("used_at", sa.Float(), nullable=True))
