"""The table of fair share: what each user has used of late, and the values by which the queue is in order."""

from sqlalchemy import Column, Float, ForeignKey, Table

from starforge_console.ledger.tables import Serial, ledger

shares = Table(
    "shares",
    ledger,
    Column("user_id", Serial, ForeignKey("users.id"), primary_key=True),
    # GPU-seconds of the attempts that have ended, as they counted at `at`.
    Column("gpu_s", Float, nullable=False),
    Column("at", Float, nullable=False),
    # What the user's team and the user had used at `ordered_at`, running attempts included: the same moment for all.
    Column("team_order", Float, nullable=False),
    Column("user_order", Float, nullable=False),
    Column("ordered_at", Float, nullable=False),
)
"""Users who have used anything, or whose team has."""
