"""The table of sweeps: one experiment that was submitted as many jobs."""

from sqlalchemy import Column, Float, ForeignKey, Index, Integer, Table, Text

from starforge_console.ledger.tables import Serial, ledger

sweeps = Table(
    "sweeps",
    ledger,
    Column("id", Text, primary_key=True),
    Column("user_id", Serial, ForeignKey("users.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("experiment", Text, nullable=False),
    Column("project", Text, nullable=False),
    # A JSON list of the hyperparameters that differ between its jobs.
    Column("keys", Text, nullable=False),
    Column("size", Integer, nullable=False),
    Column("submitted_at", Float, nullable=False),
    Index("ix_sweeps_submitted_at_id", "submitted_at", "id"),
)
