"""Of which series the GPUs are that an attempt was given."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision: of an attempt that is there nobody has kept it."""
    op.add_column("attempts", sa.Column("series", sa.Text()))


def downgrade() -> None:
    """Undo this revision."""
    op.drop_column("attempts", "series")
