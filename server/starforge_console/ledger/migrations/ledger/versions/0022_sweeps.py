"""Sweeps: one experiment as many jobs, and which of them a job is."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    op.create_table(
        "sweeps",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("experiment", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("keys", sa.Text(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("submitted_at", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_sweeps_user_id_users")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sweeps")),
    )
    op.create_index(op.f("ix_sweeps_submitted_at_id"), "sweeps", ["submitted_at", "id"])
    op.add_column("jobs", sa.Column("sweep", sa.Text(), nullable=True))
    op.add_column("jobs", sa.Column("sweep_place", sa.Integer(), nullable=True))
    op.create_index(
        op.f("ix_jobs_sweep_sweep_place"),
        "jobs",
        ["sweep", "sweep_place"],
        sqlite_where=sa.text("sweep IS NOT NULL"),
        postgresql_where=sa.text("sweep IS NOT NULL"),
    )
