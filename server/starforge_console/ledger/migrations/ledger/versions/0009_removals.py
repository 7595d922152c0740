"""Jobs name the blob of their workspace, and the ledger says what retention removed of attempts."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    op.add_column("jobs", sa.Column("workspace", sa.Text(), nullable=True))
    found = "json_extract(spec, '$.spec.workspace.digest')"
    if op.get_bind().dialect.name == "postgresql":
        found = "spec::json #>> '{spec,workspace,digest}'"
    op.execute(f"UPDATE jobs SET workspace = {found}")  # noqa: S608 - a text of ours
    op.create_index(op.f("ix_jobs_workspace"), "jobs", ["workspace"])
    op.create_table(
        "removals",
        sa.Column("attempt", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=True),
        sa.Column("done_at", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(["attempt"], ["attempts.id"], name=op.f("fk_removals_attempt_attempts")),
        sa.PrimaryKeyConstraint("attempt", "kind", "name", name=op.f("pk_removals")),
    )
    op.create_index(op.f("ix_removals_done_at"), "removals", ["done_at"])
