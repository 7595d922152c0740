"""Users keep named secrets, the console keeps logins of registries, attempts what they were given."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    op.create_table(
        "user_secrets",
        sa.Column("user_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.Column("set_at", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_user_secrets_user_id_users")),
        sa.PrimaryKeyConstraint("user_id", "name", name=op.f("pk_user_secrets")),
    )
    op.create_table(
        "registry_credentials",
        sa.Column("registry", sa.Text(), nullable=False),
        sa.Column("username", sa.Text(), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.Column("set_at", sa.Float(), nullable=False),
        sa.Column("set_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("registry", name=op.f("pk_registry_credentials")),
    )
    op.create_table(
        "attempt_secrets",
        sa.Column("attempt", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("set_at", sa.Float(), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(["attempt"], ["attempts.id"], name=op.f("fk_attempt_secrets_attempt_attempts")),
        sa.PrimaryKeyConstraint("attempt", "name", name=op.f("pk_attempt_secrets")),
    )
