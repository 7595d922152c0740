"""When ended attempts held GPUs, kept for a day, and a limit of GPU-hours a day."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision. What ended before it counts until the console noticed its end: no more was kept."""
    op.add_column("quotas", sa.Column("gpu_hours", sa.Integer()))
    serial = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "gpu_spans",
        sa.Column("attempt", sa.Text(), nullable=False),
        sa.Column("user_id", serial, nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("gpus", sa.Integer(), nullable=False),
        sa.Column("since", sa.Float(), nullable=False),
        sa.Column("until", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_gpu_spans_user_id_users")),
        sa.PrimaryKeyConstraint("attempt", name=op.f("pk_gpu_spans")),
    )
    op.create_index(op.f("ix_gpu_spans_user_id_until"), "gpu_spans", ["user_id", "until"])
    # Of the last day by the newest end: the clock of the machine that migrates may be another one.
    op.execute(
        "INSERT INTO gpu_spans (attempt, user_id, job_id, gpus, since, until)"
        " SELECT a.id, j.user_id, j.id, j.gpus, a.dequeued_at, a.ended_at"
        " FROM attempts a JOIN jobs j ON j.id = a.job_id"
        " WHERE j.gpus > 0 AND a.ended_at > (SELECT max(ended_at) FROM attempts) - 86400"
    )
