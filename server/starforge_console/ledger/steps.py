"""How far jobs have trained: the highest step that the newest attempt of each has reported a point of."""

from collections.abc import Mapping, Sequence
from typing import Final

from sqlalchemy import Connection, delete, insert, select, update

from starforge.contract.curves import is_of_system
from starforge_console.domain.points import Columns
from starforge_console.ledger.kept_tables import job_steps

_JOBS_A_QUERY: Final = 500


def note_step(connection: Connection, job_id: str, attempt: int, points: Mapping[str, Columns]) -> None:
    """Remember how far `points` reach. A newer attempt begins anew, maybe at a lower step; an older one is past.

    What the runner measures of the machine tells nothing of it: its steps are seconds of the clock.
    """
    trained = (columns for key, columns in points.items() if not is_of_system(key))
    step = max((max(columns.steps) for columns in trained if len(columns)), default=None)
    if step is None:
        return
    mine = job_steps.c.job_id == job_id
    known = connection.execute(select(job_steps.c.attempt, job_steps.c.step).where(mine)).first()
    if known is None:
        connection.execute(insert(job_steps).values(job_id=job_id, attempt=attempt, step=step))
    elif (attempt, step) > (known.attempt, known.step):
        connection.execute(update(job_steps).where(mine).values(attempt=attempt, step=step))


def load_steps(connection: Connection, ids: Sequence[str]) -> Mapping[str, int]:
    """The current step of each of these jobs; those that have reported no point are left out."""
    found: dict[str, int] = {}
    for start in range(0, len(ids), _JOBS_A_QUERY):
        some = job_steps.c.job_id.in_(ids[start : start + _JOBS_A_QUERY])
        rows = connection.execute(select(job_steps.c.job_id, job_steps.c.step).where(some)).all()
        found |= {row.job_id: row.step for row in rows}
    return found


def delete_step(connection: Connection, job_id: str) -> None:
    """Forget how far the job has trained."""
    connection.execute(delete(job_steps).where(job_steps.c.job_id == job_id))
