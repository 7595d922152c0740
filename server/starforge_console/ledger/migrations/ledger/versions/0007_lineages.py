"""Jobs keep the difference from their commit and their settings, attempts what they were assembled with."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    op.create_table(
        "lineages",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("rerun_of", sa.Text(), nullable=True),
        sa.Column("difference", sa.LargeBinary(), nullable=True),
        sa.Column("difference_bytes", sa.Integer(), nullable=True),
        sa.Column("difference_is_cut", sa.Boolean(), nullable=False),
        sa.Column("config", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_lineages_job_id_jobs")),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_lineages")),
    )
    op.add_column("attempts", sa.Column("capsule_digest", sa.Text(), nullable=True))
    op.add_column("attempts", sa.Column("runner_digest", sa.Text(), nullable=True))
