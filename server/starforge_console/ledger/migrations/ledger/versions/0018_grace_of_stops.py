"""How much time a stop or a pause left the job when it was wished."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision: what is being stopped now goes by its moment alone."""
    op.add_column("jobs", sa.Column("stop_grace_s", sa.Float()))


def downgrade() -> None:
    """Undo this revision."""
    op.drop_column("jobs", "stop_grace_s")
