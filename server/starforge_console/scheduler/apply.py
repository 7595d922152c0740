"""Apply: one guarded write for a decision, and a word to whoever waits for it."""

from collections.abc import Sequence

import structlog

from starforge.contract.states import Reason
from starforge_console.domain.job import JobInFlight
from starforge_console.domain.reconcile import Move
from starforge_console.ledger.apply import apply_move, ends_attempt, ref_of
from starforge_console.ledger.in_flight import note_progress
from starforge_console.scheduler.deps import SchedulerDeps
from starforge_console.wakeups import BACKEND, ENDINGS, QUEUE, job_topic

_log = structlog.get_logger("apply")


class Apply:
    """The only way in which the loops change a job."""

    def __init__(self, deps: SchedulerDeps) -> None:
        self._deps = deps

    async def move(self, job: JobInFlight, reasons: Sequence[Reason], note: str = "") -> bool:
        """Move `job` for `reasons`, without an exit."""
        return await self.decision(job, Move(reasons=tuple(reasons), note=note))

    async def decision(self, job: JobInFlight, decision: Move) -> bool:
        """Apply `decision`; False when somebody else was faster, and then the next round looks again."""
        guard = self._deps.guard()
        gpus = () if decision.seen is None else decision.seen.gpus
        series = self._deps.find_series(job.attempt.target.fleet, gpus) if gpus else ()
        moved = await self._deps.ledger.write(lambda connection: apply_move(connection, job, decision, guard, series))
        if moved is None:
            self._deps.wakeups.notify(BACKEND)
            return False
        _log.info("moved", job=job.id, state=moved.state, reasons=[*decision.reasons], note=decision.note)
        topics = [job_topic(job.id)]
        if ends_attempt(decision.reasons, job.state):
            topics += [QUEUE, ENDINGS]
        self._deps.wakeups.notify(*topics)
        return True

    async def note(self, job: JobInFlight, note: str) -> None:
        """Show `note` beside the job's state."""
        if note == job.note:
            return
        if await self._deps.ledger.write(lambda connection: note_progress(connection, ref_of(job), note)):
            self._deps.wakeups.notify(job_topic(job.id))
