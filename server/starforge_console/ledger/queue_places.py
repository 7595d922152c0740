"""Where administrators put queued jobs: before all others or behind them, until the job starts or is released."""

from sqlalchemy import Connection, func, select, update

from starforge.contract.ids import JobId
from starforge.contract.queue import QueueMove
from starforge.contract.states import JobState
from starforge.errors import Conflict
from starforge.said.sentence import say
from starforge_console.ledger.missing import refuse_missing_job
from starforge_console.ledger.moves import note_timeline
from starforge_console.ledger.tables import jobs


def put_in_queue(connection: Connection, job_id: JobId, to: QueueMove, by: str, now: float) -> bool:
    """Let a queued job stand first, last, or where it belongs; its timeline says who did it. False: it stood there.

    Raises:
        NotFound: there is no such job.
        Conflict: it is not queued.

    """
    row = connection.execute(select(jobs.c.state, jobs.c.ahead).where(jobs.c.id == job_id)).first()
    if row is None:
        raise refuse_missing_job(job_id)
    if row.state != JobState.QUEUED.value:
        raise Conflict(
            say("fault.job_is", job=job_id, state=row.state),
            why=say("fault.not_queued_why"),
            next_step=say("fault.not_queued_next"),
        )
    ahead = _find_ahead(connection, job_id, to, row.ahead)
    if ahead == row.ahead:
        return False
    connection.execute(update(jobs).where(jobs.c.id == job_id).values(ahead=ahead))
    note_timeline(connection, job_id, now, _say_move(to, by))
    return True


def _find_ahead(connection: Connection, job_id: JobId, to: QueueMove, ahead: int) -> int:
    """How far the job has to be moved; as far as it is where that is enough."""
    if to == "release":
        return 0
    others = (jobs.c.state == JobState.QUEUED.value) & (jobs.c.id != job_id)
    last, first = connection.execute(select(func.min(jobs.c.ahead), func.max(jobs.c.ahead)).where(others)).one()
    if to == "first":
        least = max(0, first or 0) + 1
        return max(ahead, least)
    return min(ahead, min(0, last or 0) - 1)


def _say_move(to: QueueMove, by: str) -> str:
    match to:
        case "first":
            return say("note.queue_first", user=by)
        case "last":
            return say("note.queue_last", user=by)
        case "release":
            return say("note.queue_release", user=by)
