"""Jobs know what they read, users their team, and both kinds of holders have limits."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    op.add_column("users", sa.Column("team", sa.Text(), nullable=True))
    op.create_table(
        "quotas",
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("gpus", sa.Integer(), nullable=True),
        sa.Column("jobs", sa.Integer(), nullable=True),
        sa.Column("series", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("kind", "name", name=op.f("pk_quotas")),
    )
    op.add_column("jobs", sa.Column("inputs", sa.Text(), nullable=True))
    op.add_column("jobs", sa.Column("starts_from", sa.Text(), nullable=True))
    op.create_index(op.f("ix_jobs_starts_from"), "jobs", ["starts_from"])
