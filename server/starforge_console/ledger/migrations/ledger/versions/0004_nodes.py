"""Nodes that join, the tokens they join with, and names of GPUs that an administrator added."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Apply this revision."""
    _make_nodes()
    _make_join_tokens()
    op.create_table(
        "gpu_series",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("series", sa.Text(), nullable=False),
        sa.Column("added_by", sa.Text(), nullable=False),
        sa.Column("added_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_gpu_series")),
    )


def _make_nodes() -> None:
    op.create_table(
        "nodes",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("fleet", sa.Text(), nullable=False),
        sa.Column("hostname", sa.Text(), nullable=False),
        sa.Column("advertise", sa.Text(), nullable=False),
        sa.Column("certificate", sa.Text(), nullable=False),
        sa.Column("previous_certificate", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("legacy", sa.Boolean(), nullable=False),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("fence_seen", sa.BigInteger(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("epoch_nonce", sa.Text(), nullable=False),
        sa.Column("counter", sa.BigInteger(), nullable=False),
        sa.Column("joined_at", sa.Float(), nullable=False),
        sa.Column("joined_from", sa.Text(), nullable=False),
        sa.Column("heartbeat_at", sa.Float(), nullable=True),
        sa.Column("report", sa.LargeBinary(), nullable=True),
        sa.Column("drained_why", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["fleet"], ["fleets.name"], name=op.f("fk_nodes_fleet_fleets")),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_nodes")),
    )
    op.create_index(op.f("ix_nodes_fleet"), "nodes", ["fleet"])


def _make_join_tokens() -> None:
    op.create_table(
        "join_tokens",
        sa.Column("id", _SERIAL, nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("fleet", sa.Text(), nullable=False),
        sa.Column("uses_left", sa.Integer(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("expires_at", sa.Float(), nullable=False),
        sa.Column("revoked_at", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(["fleet"], ["fleets.name"], name=op.f("fk_join_tokens_fleet_fleets")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_join_tokens")),
        sa.UniqueConstraint("hash", name=op.f("uq_join_tokens_hash")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_join_tokens_fleet"), "join_tokens", ["fleet"])
