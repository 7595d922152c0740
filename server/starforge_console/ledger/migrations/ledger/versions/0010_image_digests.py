"""Jobs are pinned to the content of their image, and attempts tell which they ran."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    op.add_column("jobs", sa.Column("image_digest", sa.Text(), nullable=True))
    op.add_column("attempts", sa.Column("image_digest", sa.Text(), nullable=True))
