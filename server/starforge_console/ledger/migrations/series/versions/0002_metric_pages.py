"""Roll-ups of chunks in pages, and pieces of chunks that grow into one another."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision. Curves that are there get their pages when they grow; their last chunk stays as it is."""
    op.create_table(
        "metric_pages",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("chunks", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "key", "number", name=op.f("pk_metric_pages")),
    )
    op.add_column("metric_keys", sa.Column("pieces", sa.Text(), nullable=True))
    op.add_column("metric_keys", sa.Column("attempt", sa.Integer(), nullable=True))


def downgrade() -> None:
    """Undo this revision."""
    op.drop_column("metric_keys", "attempt")
    op.drop_column("metric_keys", "pieces")
    op.drop_table("metric_pages")
