"""The table of sign-ins that a command began and somebody has to approve on the page."""

from sqlalchemy import Boolean, Column, Float, ForeignKey, Integer, Table, Text, false

from starforge_console.ledger.tables import Serial, ledger

device_codes = Table(
    "device_codes",
    ledger,
    Column("id", Serial, primary_key=True),
    # Of the code that the command polls with, and of the short one that a person types.
    Column("device_hash", Text, nullable=False, unique=True),
    Column("user_hash", Text, nullable=False, unique=True),
    Column("client", Text, nullable=False),
    Column("peer", Text, nullable=False, index=True),
    Column("created_at", Float, nullable=False),
    Column("expires_at", Float, nullable=False, index=True),
    # Who decided, and what the token may do that they grant; NULL until then.
    Column("user_id", Serial, ForeignKey("users.id")),
    Column("scopes", Text),
    Column("days", Integer),
    # What they signed in with: the token ends with it, and at the latest then. NULL: nothing bounds it.
    Column("opened_by", Integer),
    Column("ends_at", Float),
    Column("denied", Boolean, nullable=False, server_default=false()),
    Column("spent_at", Float),
)
