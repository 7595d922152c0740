"""The table of the audit log: rows are added and never changed; triggers of the database refuse everything else."""

from sqlalchemy import Column, Float, Index, Integer, Table, Text

from starforge_console.ledger.tables import Serial, ledger

audit = Table(
    "audit",
    ledger,
    Column("number", Serial, primary_key=True),
    Column("at", Float, nullable=False),
    # A name and no reference: what somebody did stays, whatever becomes of them. Empty where nobody is known.
    Column("user", Text, nullable=False),
    Column("via", Text, nullable=False),
    Column("peer", Text, nullable=False),
    # The number of the personal token or session that was used.
    Column("token", Integer),
    Column("act", Text, nullable=False),
    Column("what", Text, nullable=False),
    # Code and values of `what`, as JSON.
    Column("said", Text, nullable=False),
    Index("ix_audit_user_number", "user", "number"),
    Index("ix_audit_act_number", "act", "number"),
    sqlite_autoincrement=True,
)
