"""How many steps a training will have, as it says itself."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision: of a job that is there nobody has kept it."""
    op.add_column("jobs", sa.Column("total_steps", sa.BigInteger()))


def downgrade() -> None:
    """Undo this revision."""
    op.drop_column("jobs", "total_steps")
