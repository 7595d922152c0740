"""Sign-ins that a command began and somebody has to approve on the page."""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    serial = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "device_codes",
        sa.Column("id", serial, nullable=False),
        sa.Column("device_hash", sa.Text(), nullable=False),
        sa.Column("user_hash", sa.Text(), nullable=False),
        sa.Column("client", sa.Text(), nullable=False),
        sa.Column("peer", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("expires_at", sa.Float(), nullable=False),
        sa.Column("user_id", serial, nullable=True),
        sa.Column("scopes", sa.Text(), nullable=True),
        sa.Column("days", sa.Integer(), nullable=True),
        sa.Column("denied", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("spent_at", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_device_codes_user_id_users")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_device_codes")),
        sa.UniqueConstraint("device_hash", name=op.f("uq_device_codes_device_hash")),
        sa.UniqueConstraint("user_hash", name=op.f("uq_device_codes_user_hash")),
    )
    op.create_index(op.f("ix_device_codes_peer"), "device_codes", ["peer"])
    op.create_index(op.f("ix_device_codes_expires_at"), "device_codes", ["expires_at"])
