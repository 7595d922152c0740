"""The audit log: SQLite lets nobody put a row in the place of one that stands there, either.

INSERT OR REPLACE removes the row before without the trigger that refuses to delete one, unless the connection was told
otherwise. Before a row is inserted its number stands as -1 where none was given, so no row may have that one.
PostgreSQL needs nothing: there, what replaces a row updates it, and that was refused from the beginning.
"""

from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None

_REFUSAL = "the audit log is only added to"


def upgrade() -> None:
    """Apply this revision."""
    if op.get_bind().dialect.name != "sqlite":
        return
    for name, moment, condition in (
        ("audit_without_replace", "BEFORE", "EXISTS (SELECT 1 FROM audit WHERE number = NEW.number)"),
        ("audit_without_number", "AFTER", "NEW.number < 1"),
    ):
        refusing = f"BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END"
        op.execute(f"CREATE TRIGGER {name} {moment} INSERT ON audit WHEN {condition} {refusing}")
