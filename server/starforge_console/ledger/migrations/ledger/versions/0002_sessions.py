"""Page sessions know the token that opened them."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    op.add_column("tokens", sa.Column("opened_by", sa.Integer(), nullable=True))
