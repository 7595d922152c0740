"""The table of whom an identity provider's people are here."""

from sqlalchemy import Column, Float, ForeignKey, Table, Text

from starforge_console.ledger.tables import Serial, ledger

identities = Table(
    "identities",
    ledger,
    # Issuer and subject: all that a provider promises to keep; names and addresses may pass to others.
    Column("issuer", Text, primary_key=True),
    Column("subject", Text, primary_key=True),
    Column("user_id", Serial, ForeignKey("users.id"), nullable=False, index=True),
    Column("linked_at", Float, nullable=False),
)
