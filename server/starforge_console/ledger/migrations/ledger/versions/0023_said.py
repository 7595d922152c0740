"""Code and values of what is said beside a state, in a timeline and at admission: pages say it in two languages."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision: what was said before has its English text alone."""
    op.add_column("jobs", sa.Column("note_said", sa.Text()))
    op.add_column("jobs", sa.Column("admission_said", sa.Text()))
    op.add_column("events", sa.Column("note_said", sa.Text()))
