"""The queue as one reader knows it: of a long queue only those jobs are read again that have changed."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection, literal, select

from starforge.contract.ids import JobId
from starforge.contract.states import JobState
from starforge_console.domain.job import QueuedJob
from starforge_console.ledger.queue import list_queued
from starforge_console.ledger.tables import jobs

# Whatever else a pass looks at of a queued job changes together with its version, but for the note of why it waits,
# which the reader itself writes and tells by `RememberedQueue.note`.
# The state is part of the statement, not a value beside it: else the index of queued jobs is not taken.
_CHANGES: Final = select(jobs.c.id, jobs.c.version, jobs.c.ahead, jobs.c.passed).where(
    jobs.c.state == literal(JobState.QUEUED.value, literal_execute=True)
)
READ_ALONE_AT_MOST: Final = 500


class RememberedQueue:
    """The queue of the one reader who also writes down why its jobs wait.

    Once more than `alone_at_most` jobs have changed, the whole queue is read.
    """

    def __init__(self, alone_at_most: int = READ_ALONE_AT_MOST) -> None:
        self._alone_at_most = alone_at_most
        self._jobs: dict[JobId, QueuedJob] = {}

    def load(self, connection: Connection) -> list[QueuedJob]:
        """All queued jobs as they are, in no order; one that did not change is the same object as before."""
        if not self._jobs:
            self._jobs = {job.id: job for job in list_queued(connection)}
            return list(self._jobs.values())
        rows = connection.execute(_CHANGES).all()
        changed = [job for job, *counted in rows if counted != self._recall(job)]
        if changed:
            some = changed if len(changed) <= self._alone_at_most else None
            self._jobs |= {job.id: job for job in list_queued(connection, some)}
        self._jobs = {job: self._jobs[job] for job, *_ in rows}
        return list(self._jobs.values())

    def note(self, told: Sequence[tuple[QueuedJob, str]]) -> None:
        """Know that these jobs now say why they wait."""
        self._jobs |= {job.id: job._replace(note=text) for job, text in told}

    def _recall(self, job: JobId) -> list[int]:
        known = self._jobs.get(job)
        return [] if known is None else [known.version, known.ahead, known.passed]
