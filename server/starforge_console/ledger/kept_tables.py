"""Tables of what is kept for a while: examples and steps of jobs, what retention removed, why runs failed, submits."""

from sqlalchemy import BigInteger, Column, Float, ForeignKey, Index, Integer, LargeBinary, Table, Text

from starforge_console.ledger.tables import Serial, ledger, series

removals = Table(
    "removals",
    ledger,
    Column("attempt", Text, ForeignKey("attempts.id"), primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("at", Float, nullable=False),
    Column("bytes", BigInteger),
    Column("done_at", Float, index=True),
)
"""What retention removed of an attempt: written before anything goes, `done_at` once all of it has gone."""

diagnoses = Table(
    "diagnoses",
    ledger,
    Column("attempt", Text, ForeignKey("attempts.id"), primary_key=True),
    Column("rules_version", Integer, nullable=False),
    Column("at", Float, nullable=False),
    # JSON
    Column("answer", Text, nullable=False),
)
"""Why an attempt failed, as the rules of that version found it in its log."""

samples = Table(
    "samples",
    series,
    Column("job_id", Text, primary_key=True),
    Column("attempt", Integer, primary_key=True),
    # Where in the attempt's events the report begins: read twice, it is kept once.
    Column("at_byte", BigInteger, primary_key=True),
    Column("name", Text, nullable=False),
    Column("step", BigInteger, nullable=False),
    Column("at", Float, nullable=False),
    Column("rows", Integer, nullable=False),
    Column("left_out", Integer, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    # zstd of a JSON list
    Column("content", LargeBinary, nullable=False),
    Index("ix_samples_job_id_name_step", "job_id", "name", "step"),
)
"""Rows of text that a job reported at a step."""

job_steps = Table(
    "job_steps",
    series,
    Column("job_id", Text, primary_key=True),
    Column("attempt", Integer, nullable=False),
    Column("step", BigInteger, nullable=False),
)
"""The highest step that a job's newest reporting attempt has reported a point of."""

newer_attempts = Table(
    "newer_attempts",
    ledger,
    Column("job_id", Text, ForeignKey("jobs.id"), primary_key=True),
    Column("number", Integer, primary_key=True),
    # The storage, or the fleet that its container was found in.
    Column("place", Text, nullable=False),
)
"""Attempts that were begun after the backup from which this ledger was restored, until their jobs are held for them."""

idempotency = Table(
    "idempotency",
    ledger,
    Column("user_id", Serial, ForeignKey("users.id"), primary_key=True),
    Column("key", Text, primary_key=True),
    Column("body_digest", Text, nullable=False),
    Column("job_id", Text, nullable=False),
    Column("at", Float, nullable=False),
)
"""What was answered to the keys under which people submitted."""
