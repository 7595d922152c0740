"""Sizes and exit codes have room for eight bytes, which SQLite's numbers always had."""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    if op.get_bind().dialect.name != "postgresql":
        return
    for column in ("produced_bytes", "exit_code"):
        op.alter_column("attempts", column, type_=sa.BigInteger())
