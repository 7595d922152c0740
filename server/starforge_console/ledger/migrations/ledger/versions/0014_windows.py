"""When a fleet, a team or a profile may run; and a quick way to the jobs that go on by themselves."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    op.create_table(
        "windows",
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("zone", sa.Text(), nullable=False),
        sa.Column("open", sa.Text(), nullable=False),
        sa.Column("without", sa.Text(), nullable=False),
        sa.Column("goes_on", sa.Boolean(), nullable=False),
        sa.Column("set_by", sa.Text(), nullable=False),
        sa.Column("set_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("kind", "name", name=op.f("pk_windows")),
    )
    op.create_index(
        op.f("ix_jobs_retry_at"),
        "jobs",
        ["retry_at"],
        sqlite_where=sa.text("retry_at IS NOT NULL"),
        postgresql_where=sa.text("retry_at IS NOT NULL"),
    )
