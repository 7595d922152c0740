"""Attempts say whether they ran without a container, and so without the image of their job."""

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision. Of attempts of before it is not known."""
    op.add_column("attempts", sa.Column("is_bare", sa.Boolean(), nullable=True))
