"""What a job has done so far, for whoever would interrupt it."""

from sqlalchemy import Connection, func, select

from starforge_console.domain.progress import Work, build_work
from starforge_console.ledger.tables import attempt_outputs, attempts


def load_work(connection: Connection, job_id: str, now: float) -> Work:
    """How long the job's attempts ran, and how many checkpoints they have told of."""
    mine = attempts.c.job_id == job_id
    spans = connection.execute(select(attempts.c.started_at, attempts.c.ended_at).where(mine)).all()
    told = (
        select(func.count())
        .select_from(attempt_outputs.join(attempts, attempts.c.id == attempt_outputs.c.attempt))
        .where(mine, attempt_outputs.c.kind == "checkpoint")
    )
    checkpoints = connection.execute(told).scalar_one()
    return build_work([(row.started_at, row.ended_at) for row in spans], checkpoints, now)
