"""What was found out of why an attempt failed is kept with it."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    op.create_table(
        "diagnoses",
        sa.Column("attempt", sa.Text(), nullable=False),
        sa.Column("rules_version", sa.Integer(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["attempt"], ["attempts.id"], name=op.f("fk_diagnoses_attempt_attempts")),
        sa.PrimaryKeyConstraint("attempt", name=op.f("pk_diagnoses")),
    )
