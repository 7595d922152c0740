"""Steps of jobs without what the runner measures of the machine, whose steps are seconds of the clock."""

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision: the steps of jobs that are there are taken from their curves anew."""
    op.execute("DELETE FROM job_steps")
    op.execute(
        "INSERT INTO job_steps (job_id, attempt, step) "
        "SELECT chunk.job_id, chunk.attempt, max(chunk.last_step) FROM metric_chunks chunk "
        "JOIN (SELECT job_id, max(attempt) AS attempt FROM metric_chunks "
        "WHERE substr(key, 1, 7) <> 'system/' GROUP BY job_id) newest "
        "ON newest.job_id = chunk.job_id AND newest.attempt = chunk.attempt "
        "WHERE substr(chunk.key, 1, 7) <> 'system/' GROUP BY chunk.job_id, chunk.attempt"
    )


def downgrade() -> None:
    """Undo this revision: nothing, what was kept before was wrong."""
