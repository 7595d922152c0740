"""The tables of what users have used of late, which orders the queue and counts for a day, and of what they store."""

from sqlalchemy import BigInteger, Column, Float, ForeignKey, Index, Integer, Table, Text

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

gpu_spans = Table(
    "gpu_spans",
    ledger,
    # Without references: who deletes a job gets no hours back.
    Column("attempt", Text, primary_key=True),
    Column("user_id", Serial, ForeignKey("users.id"), nullable=False),
    Column("job_id", Text, nullable=False),
    Column("gpus", Integer, nullable=False),
    Column("since", Float, nullable=False),
    Column("until", Float, nullable=False),
    Index("ix_gpu_spans_user_id_until", "user_id", "until"),
)
"""What each attempt that has ended held of GPUs; of each user the last day, and what was not yet cleared of before."""

stored = Table(
    "stored",
    ledger,
    Column("job_id", Text, ForeignKey("jobs.id"), primary_key=True),
    Column("kind", Text, primary_key=True),
    # The attempt that left it; of artifacts the first attempt of those that share a folder.
    Column("number", Integer, primary_key=True),
    Column("user_id", Serial, ForeignKey("users.id"), nullable=False, index=True),
    Column("bytes", BigInteger, nullable=False),
)
"""What jobs hold on the storage, as it was measured when it last changed."""

user_storage = Table(
    "user_storage",
    ledger,
    Column("user_id", Serial, ForeignKey("users.id"), primary_key=True),
    Column("bytes", BigInteger, nullable=False),
)
"""The sums of `stored` by user, so that a pass of the queue adds nothing up."""
