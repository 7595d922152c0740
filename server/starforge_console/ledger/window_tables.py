"""The table of windows: when a fleet, a team or a profile may run."""

from sqlalchemy import Boolean, Column, Float, Table, Text

from starforge_console.ledger.tables import ledger

windows = Table(
    "windows",
    ledger,
    Column("kind", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("zone", Text, nullable=False),
    # JSON lists of texts, as they are shown.
    Column("open", Text, nullable=False),
    Column("without", Text, nullable=False),
    # What it stopped goes on by itself when it opens again.
    Column("goes_on", Boolean, nullable=False),
    Column("set_by", Text, nullable=False),
    Column("set_at", Float, nullable=False),
)
