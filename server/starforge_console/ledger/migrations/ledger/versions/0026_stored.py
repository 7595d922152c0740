"""What jobs hold on the storage, by job and by user, and limits of storage and of profiles."""

import json
from collections import Counter
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

_CHECKPOINTS = "ckpt"


def upgrade() -> None:
    """Apply this revision. What ended attempts hold is what they left by the ledger, without what was removed since."""
    op.add_column("quotas", sa.Column("storage_gib", sa.Integer()))
    op.add_column("quotas", sa.Column("profiles", sa.Text()))
    serial = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    stored = op.create_table(
        "stored",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("user_id", serial, nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_stored_job_id_jobs")),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_stored_user_id_users")),
        sa.PrimaryKeyConstraint("job_id", "kind", "number", name=op.f("pk_stored")),
    )
    op.create_index(op.f("ix_stored_user_id"), "stored", ["user_id"])
    sums = op.create_table(
        "user_storage",
        sa.Column("user_id", serial, nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_user_storage_user_id_users")),
        sa.PrimaryKeyConstraint("user_id", name=op.f("pk_user_storage")),
    )
    rows = _list_stored(op.get_bind())
    if not rows:
        return
    op.bulk_insert(stored, rows)
    by_user: Counter[int] = Counter()
    for row in rows:
        by_user[row["user_id"]] += row["bytes"]
    op.bulk_insert(sums, [{"user_id": user, "bytes": held} for user, held in by_user.items()])


def _list_stored(connection: sa.Connection) -> list[dict[str, Any]]:
    removed = {
        (attempt, kind, name)
        for attempt, kind, name in connection.execute(
            sa.text("SELECT attempt, kind, name FROM removals WHERE done_at IS NOT NULL")
        )
    }
    found: Counter[tuple[int, str, str, int]] = Counter()
    artifacts: dict[tuple[int, str, str, int], dict[str, int]] = {}
    first: dict[str, int] = {}
    attempts = connection.execute(
        sa.text(
            "SELECT a.id, a.job_id, a.number, a.reason, a.outputs, a.produced_bytes, j.user_id"
            " FROM attempts a JOIN jobs j ON j.id = a.job_id ORDER BY a.job_id, a.number"
        )
    )
    for attempt, job, number, reason, outputs, produced, user in attempts:
        left = json.loads(outputs or "{}")
        if produced and (attempt, "log", "") not in removed:
            found[user, job, "log", number] += produced
        for one in left.get("checkpoints", ()):
            if (attempt, "checkpoint", one["path"].removeprefix(_CHECKPOINTS).removeprefix("/")) not in removed:
                found[user, job, "checkpoints", number] += one.get("bytes") or 0
        # Attempts share a folder of artifacts, and what comes after one that was lost has another.
        folder = (user, job, "artifacts", first.setdefault(job, 1))
        for one in left.get("artifacts", ()):
            artifacts.setdefault(folder, {})[one["path"]] = one.get("bytes") or 0
        if reason == "node_lost":
            first[job] = number + 1
    found.update({folder: sum(sizes.values()) for folder, sizes in artifacts.items()})
    return [
        {"user_id": user, "job_id": job, "kind": kind, "number": number, "bytes": held}
        for (user, job, kind, number), held in found.items()
        if held
    ]
