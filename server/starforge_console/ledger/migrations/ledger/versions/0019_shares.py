"""What each user has used of late: who has had less comes first."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision. What was used before it is not counted: all begin alike."""
    op.create_table(
        "shares",
        sa.Column("user_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("gpu_s", sa.Float(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("team_order", sa.Float(), nullable=False),
        sa.Column("user_order", sa.Float(), nullable=False),
        sa.Column("ordered_at", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_shares_user_id_users")),
        sa.PrimaryKeyConstraint("user_id", name=op.f("pk_shares")),
    )
