"""The tables. `ledger` holds what must never be lost or doubled; `series` holds what jobs report in bulk."""

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
)

NAMES: Final = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}

ledger = MetaData(naming_convention=NAMES)
series = MetaData(naming_convention=NAMES)

_RETRIES: Final = text("retry_at IS NOT NULL")
_SWEPT: Final = text("sweep IS NOT NULL")
_QUEUED: Final = text("state = 'QUEUED'")

# SQLite numbers only INTEGER keys by itself; PostgreSQL wants eight bytes.
Serial = BigInteger().with_variant(Integer, "sqlite")
# What others tell may be any number; SQLite's INTEGER holds it, and older tables call it that.
Wide = Serial


facts = Table("facts", ledger, Column("name", Text, primary_key=True), Column("value", Text, nullable=False))
"""Single facts of this install, such as its id."""

users = Table(
    "users",
    ledger,
    Column("id", Serial, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("role", Text, nullable=False),
    Column("active", Boolean, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("team", Text),
)

quotas = Table(
    "quotas",
    ledger,
    Column("kind", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("gpus", Integer),
    Column("jobs", Integer),
    # Names separated by spaces; NULL allows every series.
    Column("series", Text),
    # In 24 hours.
    Column("gpu_hours", Integer),
    Column("storage_gib", Integer),
    # Names separated by spaces; NULL allows every profile.
    Column("profiles", Text),
)
"""What a user or a team may hold and use; NULL is no limit."""

tokens = Table(
    "tokens",
    ledger,
    Column("id", Serial, primary_key=True),
    Column("user_id", Serial, ForeignKey("users.id"), nullable=False, index=True),
    Column("kind", Text, nullable=False),
    Column("hash", Text, nullable=False, unique=True),
    Column("scopes", Text, nullable=False),
    Column("label", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("expires_at", Float, nullable=False),
    Column("revoked_at", Float),
    # The personal token that a page session was opened with, or what was made in it: all of that ends with it.
    Column("opened_by", Integer),
    # Of a page session: where it was opened, with which browser, and when it was last seen in use.
    Column("peer", Text),
    Column("agent", Text),
    Column("used_at", Float),
    # A session that an identity provider opened is not kept alive beyond that.
    Column("ends_at", Float),
)

user_secrets = Table(
    "user_secrets",
    ledger,
    Column("user_id", Serial, ForeignKey("users.id"), primary_key=True),
    Column("name", Text, primary_key=True),
    Column("sealed", LargeBinary, nullable=False),
    Column("set_at", Float, nullable=False),
)
"""What users may pass to their jobs, sealed by the vault."""

registry_credentials = Table(
    "registry_credentials",
    ledger,
    # Host and port, as images name it.
    Column("registry", Text, primary_key=True),
    Column("username", Text, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    Column("set_at", Float, nullable=False),
    Column("set_by", Text, nullable=False),
)
"""How the console signs in to registries; the passwords are sealed by the vault."""

fleets = Table(
    "fleets",
    ledger,
    Column("name", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("network", Text, nullable=False),
    Column("user", Text),
    Column("requires_limit", Boolean, nullable=False, server_default=false()),
    Column("created_at", Float, nullable=False),
)

jobs = Table(
    "jobs",
    ledger,
    Column("id", Text, primary_key=True),
    Column("user_id", Serial, ForeignKey("users.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("project", Text, nullable=False),
    Column("spec", Text, nullable=False),
    Column("spec_digest", Text, nullable=False),
    Column("admission", Text, nullable=False),
    Column("fleet", Text),
    Column("priority", Integer, nullable=False),
    Column("pools", Text, nullable=False),
    Column("gpus", Integer, nullable=False),
    Column("grace_s", Float, nullable=False),
    Column("max_runtime_s", Float),
    Column("state", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("desired", Text, nullable=False),
    Column("stop_by", Float),
    # What of time the stop or pause left it when it was wished: no clock that is set makes it longer.
    Column("stop_grace_s", Float),
    Column("version", Integer, nullable=False),
    Column("lease", Text),
    Column("lease_until", Float),
    Column("note", Text, nullable=False),
    Column("attempt_id", Text),
    Column("attempt_number", Integer, nullable=False),
    Column("retries_left", Integer, nullable=False),
    Column("free_retries", Integer, nullable=False),
    Column("retry_at", Float),
    Column("submitted_at", Float, nullable=False),
    Column("state_since", Float, nullable=False),
    Column("started_at", Float),
    Column("ended_at", Float),
    Column("waiting", Text),
    # Code and values of `note` and of what the gates said, as JSON; NULL where there are none.
    Column("note_said", Text),
    Column("admission_said", Text),
    # What the job reads beside its workspace, as JSON; NULL where it names nothing.
    Column("inputs", Text),
    # The job whose checkpoint this one starts from.
    Column("starts_from", Text, index=True),
    # What the image's registry said that its tag means when the job was admitted; NULL where nobody told.
    Column("image_digest", Text),
    # The digest of its packed workspace.
    Column("workspace", Text, index=True),
    # The reason that the end confirms where a stop or a pause is the platform's own wish; NULL where it is a user's.
    Column("wished_for", Text),
    # Once it is paused, or stopped by a window, it goes on by itself as soon as it may.
    Column("goes_on", Boolean, nullable=False, server_default=false()),
    # What `retries_left` is again once an attempt has committed a checkpoint of a later step than `restored_at_step`.
    Column("retries_given", Integer, nullable=False, server_default="0"),
    Column("restored_at_step", BigInteger),
    # How long the training will be, where it has said so.
    Column("total_steps", BigInteger),
    # How far an administrator moved it in the queue, and how many jobs behind it started where it found no room.
    Column("ahead", Integer, nullable=False, server_default="0"),
    Column("passed", Integer, nullable=False, server_default="0"),
    Column("sweep", Text),
    Column("sweep_place", Integer),
    Index("ix_jobs_state_submitted_at", "state", "submitted_at"),
    Index("ix_jobs_submitted_at_id", "submitted_at", "id"),
    # Few of many: those that go on by themselves.
    Index("ix_jobs_retry_at", "retry_at", sqlite_where=_RETRIES, postgresql_where=_RETRIES),
    # All that tells whether a queued job has changed: none of its other columns is visited for that.
    Index(
        "ix_jobs_state_id_version_ahead_passed",
        *("state", "id", "version", "ahead", "passed"),
        sqlite_where=_QUEUED,
        postgresql_where=_QUEUED,
    ),
    Index("ix_jobs_sweep_sweep_place", "sweep", "sweep_place", sqlite_where=_SWEPT, postgresql_where=_SWEPT),
)

attempts = Table(
    "attempts",
    ledger,
    Column("id", Text, primary_key=True),
    Column("job_id", Text, ForeignKey("jobs.id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("fleet", Text, nullable=False),
    Column("node", Text, nullable=False),
    Column("target_name", Text, nullable=False),
    Column("token_hash", Text, unique=True),
    Column("token_expires_at", Float),
    Column("dequeued_at", Float, nullable=False),
    Column("launched_at", Float),
    Column("started_at", Float),
    Column("ended_at", Float),
    Column("stop_sent_at", Float),
    Column("gone_since", Float),
    Column("gone_engine_started_at", Float),
    Column("reason", Text),
    Column("exit_code", Wide),
    Column("evidence", Text),
    Column("costs_retry", Boolean, nullable=False),
    Column("gpus", Text, nullable=False),
    # Theirs, separated by spaces; NULL while it is not known of each.
    Column("series", Text),
    Column("image_id", Text),
    # Of the image that ran, at the registry that its name says.
    Column("image_digest", Text),
    # Whether it ran without a container, and so without its image; NULL while it is not known.
    Column("is_bare", Boolean),
    # Of the capsule that the attempt was assembled with, and of the runner in it.
    Column("capsule_digest", Text),
    Column("runner_digest", Text),
    Column("outputs", Text),
    Column("produced_bytes", Wide),
    Column("finalised_at", Float),
    Column("cleaned_at", Float),
    UniqueConstraint("job_id", "number"),
    Index("ix_attempts_cleaned_at", "cleaned_at", "ended_at"),
)

lineages = Table(
    "lineages",
    ledger,
    Column("job_id", Text, ForeignKey("jobs.id"), primary_key=True),
    # Without a reference: the job of before may be deleted.
    Column("rerun_of", Text),
    # zstd
    Column("difference", LargeBinary),
    Column("difference_bytes", Integer),
    Column("difference_is_cut", Boolean, nullable=False),
    Column("config", Text),
)
"""What explains a job's spec: long texts that only its own page reads."""

events = Table(
    "events",
    ledger,
    Column("number", Serial, primary_key=True),
    Column("job_id", Text, ForeignKey("jobs.id"), nullable=False),
    Column("at", Float, nullable=False),
    Column("kind", Text, nullable=False),
    Column("state", Text),
    Column("reason", Text),
    Column("attempt", Integer),
    Column("note", Text, nullable=False),
    Column("count", Integer, nullable=False),
    Column("note_said", Text),
    Index("ix_events_job_id_number", "job_id", "number"),
    sqlite_autoincrement=True,
)

event_marks = Table(
    "event_marks",
    ledger,
    Column("attempt", Text, ForeignKey("attempts.id"), primary_key=True),
    Column("received_to", BigInteger, nullable=False),
    Column("entries", Integer, nullable=False),
    Column("told", Text, nullable=False),
)
"""How far an attempt's events are in the timeline: beside it, so that a crash neither loses nor doubles an entry."""

attempt_outputs = Table(
    "attempt_outputs",
    ledger,
    Column("attempt", Text, ForeignKey("attempts.id"), primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("path", Text, primary_key=True),
    Column("step", BigInteger),
    Column("bytes", BigInteger),
    Column("sha256", Text),
)
"""Artifacts and checkpoints that an attempt has told of."""

attempt_secrets = Table(
    "attempt_secrets",
    ledger,
    Column("attempt", Text, ForeignKey("attempts.id"), primary_key=True),
    Column("name", Text, primary_key=True),
    Column("set_at", Float, nullable=False),
    # As its owner had it sealed: a launch that is repeated gives the same value, and what the attempt says is masked by
    # it, whatever its owner sets meanwhile. NULL once the attempt is cleaned up.
    Column("sealed", LargeBinary),
)
"""What each attempt was given of its owner's secrets."""

nodes = Table(
    "nodes",
    ledger,
    Column("name", Text, primary_key=True),
    Column("fleet", Text, ForeignKey("fleets.name"), nullable=False, index=True),
    Column("hostname", Text, nullable=False),
    Column("advertise", Text, nullable=False),
    Column("certificate", Text, nullable=False),
    # The one before, until the node has signed with the new one: the answer to a join may have been lost.
    Column("previous_certificate", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("legacy", Boolean, nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("fence_seen", BigInteger, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("epoch_nonce", Text, nullable=False),
    Column("counter", BigInteger, nullable=False),
    Column("joined_at", Float, nullable=False),
    Column("joined_from", Text, nullable=False),
    Column("heartbeat_at", Float),
    Column("report", LargeBinary),
    Column("drained_why", Text, nullable=False),
)
"""Machines that joined, removed ones included: a name is never given to another machine."""

join_tokens = Table(
    "join_tokens",
    ledger,
    Column("id", Serial, primary_key=True),
    Column("hash", Text, nullable=False, unique=True),
    Column("fleet", Text, ForeignKey("fleets.name"), nullable=False, index=True),
    Column("uses_left", Integer, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("expires_at", Float, nullable=False),
    Column("revoked_at", Float),
    sqlite_autoincrement=True,
)

gpu_series = Table(
    "gpu_series",
    ledger,
    Column("name", Text, primary_key=True),
    Column("series", Text, nullable=False),
    Column("added_by", Text, nullable=False),
    Column("added_at", Float, nullable=False),
)
"""Names of GPUs that the built-in registry does not know."""

streams = Table(
    "streams",
    series,
    Column("attempt", Text, primary_key=True),
    Column("stream", Text, primary_key=True),
    Column("received_to", BigInteger, nullable=False),
    Column("ended", Boolean, nullable=False),
)
"""How far each stream of an attempt is received; whatever lies before is durable."""

log_segments = Table(
    "log_segments",
    series,
    Column("attempt", Text, primary_key=True),
    Column("stream", Text, primary_key=True),
    Column("from_byte", BigInteger, primary_key=True),
    Column("to_byte", BigInteger, nullable=False),
    Column("file", Text, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("crc", BigInteger, nullable=False),
    Column("lines_before", BigInteger),
)
