"""A queued job keeps why it waits, reason by reason."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    op.add_column("jobs", sa.Column("waiting", sa.Text(), nullable=True))
    # What is told anew is written only where it differs from the note.
    jobs = sa.table("jobs", sa.column("state", sa.Text), sa.column("note", sa.Text))
    op.execute(sa.update(jobs).where(jobs.c.state == "QUEUED").values(note=""))
