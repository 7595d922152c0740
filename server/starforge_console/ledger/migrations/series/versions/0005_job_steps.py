"""The step that each job's newest attempt has reached, beside its curves."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision: jobs that are there get theirs from the summaries of their curves."""
    op.create_table(
        "job_steps",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_job_steps")),
    )
    op.execute(
        "INSERT INTO job_steps (job_id, attempt, step) "
        "SELECT chunk.job_id, chunk.attempt, max(chunk.last_step) FROM metric_chunks chunk "
        "JOIN (SELECT job_id, max(attempt) AS attempt FROM metric_chunks GROUP BY job_id) newest "
        "ON newest.job_id = chunk.job_id AND newest.attempt = chunk.attempt "
        "GROUP BY chunk.job_id, chunk.attempt"
    )


def downgrade() -> None:
    """Undo this revision."""
    op.drop_table("job_steps")
