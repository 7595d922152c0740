"""Tables of webhooks: who is told of changes of jobs, and how far each has been told."""

from sqlalchemy import BigInteger, Column, Float, ForeignKey, Integer, LargeBinary, Table, Text

from starforge_console.ledger.tables import Serial, ledger

webhooks = Table(
    "webhooks",
    ledger,
    # A number is not given again: it is in the ids of deliveries.
    Column("id", Serial, primary_key=True),
    Column("user_id", Serial, ForeignKey("users.id"), nullable=False),
    Column("url", Text, nullable=False),
    # States separated by spaces; empty for all.
    Column("events", Text, nullable=False),
    Column("project", Text),
    Column("jobs", Text, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    Column("created_at", Float, nullable=False),
    # The number of the last event that is done with.
    Column("told_to", BigInteger, nullable=False),
    # Of the event behind that, since the last one that came through.
    Column("tries", Integer, nullable=False),
    Column("next_try_at", Float),
    Column("failing_since", Float),
    Column("disabled_at", Float),
    Column("disabled_why", Text, nullable=False),
    sqlite_autoincrement=True,
)

deliveries = Table(
    "webhook_deliveries",
    ledger,
    Column("webhook_id", Serial, ForeignKey("webhooks.id"), primary_key=True),
    Column("event", BigInteger, primary_key=True),
    # Without references: the job may be deleted.
    Column("job_id", Text),
    Column("state", Text),
    Column("at", Float, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("status", Integer),
    Column("error", Text, nullable=False),
    Column("outcome", Text, nullable=False),
)
"""The last deliveries of each webhook."""
