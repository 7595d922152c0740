"""After a restore: attempts that are newer than the ledger, of jobs that it knows."""

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    op.create_table(
        "newer_attempts",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("place", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_newer_attempts_job_id_jobs")),
        sa.PrimaryKeyConstraint("job_id", "number", name=op.f("pk_newer_attempts")),
    )
