"""Reconcile: asks every backend what became of its attempts, carries out stops, and applies what was decided."""

import asyncio
from collections.abc import Collection, Sequence
from functools import partial
from typing import Final

import structlog

from starforge.contract.capsule import Desired, ExitRecord
from starforge.contract.executor import Executor
from starforge.contract.ids import AttemptId, JobId
from starforge.contract.observation import Gone, NoSignal, Observation, Phase, Seen
from starforge.contract.states import DesiredState, JobState
from starforge.errors import BackendUnreachable
from starforge.said.sentence import say
from starforge_console.domain.job import JobInFlight
from starforge_console.domain.masking import Words, mask_record
from starforge_console.domain.reconcile import CloseDoor, Decision, EndNow, Move, NoteGone, Wait, decide, end_of_fenced
from starforge_console.domain.wishes import find_left_s
from starforge_console.ledger.in_flight import list_in_flight, note_gone, note_stop_sent
from starforge_console.scheduler.apply import Apply
from starforge_console.scheduler.deps import SchedulerDeps
from starforge_console.scheduler.launch import Launcher
from starforge_console.scheduler.tasks import KeyedTasks

BUSY_S: Final = 2.0
"""Time between two rounds while a stop or the fetching of an image is under way."""

UNSETTLED_S: Final = 5.0
"""Time between two rounds while a launch is open or an attempt was missing once."""

_log = structlog.get_logger("reconcile")


class Reconcile:
    """One round over every job that holds a place."""

    def __init__(self, deps: SchedulerDeps, apply: Apply, launcher: Launcher) -> None:
        self._deps = deps
        self._apply = apply
        self._launcher = launcher
        self._looks = KeyedTasks[str]("look at fleet")
        self._work = KeyedTasks[JobId]("reconcile")

    async def run_once(self, limit_s: float | None = None) -> float:
        """Bring every job in flight to where its backend says it is; gives the seconds until the next round is due.

        A fleet that does not answer and a job whose backend or storage hangs are waited for `limit_s` (the settings'
        round limit where it is None) and then left to themselves; they are looked at again once that has ended.
        """
        jobs = await self._deps.ledger.read(list_in_flight)
        by_fleet: dict[str, list[JobInFlight]] = {}
        for job in jobs:
            by_fleet.setdefault(job.attempt.target.fleet, []).append(job)
        for fleet, members in by_fleet.items():
            self._looks.begin(fleet, partial(self._fleet, fleet, members))
        limit_s = self._deps.round_limit_s if limit_s is None else limit_s
        if not await self._wait(by_fleet, [job.id for job in jobs], limit_s):
            return UNSETTLED_S
        if any(job.desired is not DesiredState.RUN or job.state is JobState.PENDING for job in jobs):
            return BUSY_S
        if any(job.state is JobState.SUBMITTED or job.attempt.gone_since is not None for job in jobs):
            return UNSETTLED_S
        return self._deps.reconcile_s

    async def close(self) -> None:
        """Cut off what is under way; the next process looks again."""
        await self._looks.close()
        await self._work.close()

    async def _wait(self, fleets: Collection[str], jobs: Collection[JobId], limit_s: float) -> bool:
        clock = asyncio.get_running_loop()
        deadline = clock.time() + limit_s
        answered = await self._looks.wait(fleets, limit_s)
        return await self._work.wait(jobs, max(0.0, deadline - clock.time())) and answered

    async def _fleet(self, fleet: str, jobs: Sequence[JobInFlight]) -> None:
        executor = self._deps.executors.get(fleet)
        if executor is None:
            unserved = say("note.no_executor", fleet=fleet)
            await asyncio.gather(*(self._apply.note(job, unserved) for job in jobs))
            return
        seen = await executor.observe([job.attempt.id for job in jobs])
        for job in jobs:
            observation = seen.get(job.attempt.id, NoSignal(reason=say("note.backend_silent")))
            self._work.begin(job.id, partial(self._job, executor, job, observation))

    async def _job(self, executor: Executor, job: JobInFlight, observation: Observation) -> None:
        if job.state is JobState.SUBMITTED:
            if self._launcher.is_launching(job.id):
                return
            if not _is_under_way(observation):
                await self._launcher.settle(job)
                return
        if isinstance(observation, Seen) and job.attempt.gone_since is not None:
            await self._deps.ledger.write(lambda connection: note_gone(connection, job.attempt.id, None))
        wants_end = job.desired is not DesiredState.RUN and not _has_exited(observation)
        if wants_end and await self._stop(executor, job, observation):
            return
        record = None
        if isinstance(observation, Gone) or _has_exited(observation):
            record = await self._find_record(job.attempt.id)
        await self._carry_out(executor, job, decide(job, observation, record, self._deps.clock.now()))

    async def _find_record(self, attempt: AttemptId) -> ExitRecord | None:
        """The record of the attempt's end; what it says comes out of the container, and enters here without secrets."""
        record = await self._deps.records.exit_record(attempt)
        return None if record is None else mask_record(record, Words(await self._deps.assembly.find_words(attempt)))

    async def _stop(self, executor: Executor, job: JobInFlight, observation: Observation) -> bool:
        """Carry the wish to runner and backend; True when `observation` has no more to tell."""
        now = self._deps.clock.now()
        remaining_s = find_left_s(job.stop_by, job.stop_grace_s, now)
        await self._tell(job, remaining_s)
        try:
            if isinstance(observation, Seen) and observation.phase is Phase.PREPARING:
                answer = await executor.fence(job.attempt.id)  # nothing runs yet: closing the door is the whole stop
                if isinstance(answer, Gone) and answer.fenced:
                    await self._apply.move(job, [end_of_fenced(job)], note=say("note.not_started"))
                    return True
            await executor.stop(job.attempt.id, remaining_s)
        except BackendUnreachable as error:
            await self._apply.note(job, say("note.waiting_stop", node=job.attempt.target.node, why=error.said))
            return isinstance(observation, NoSignal)
        if job.attempt.stop_sent_at is None:
            await self._deps.ledger.write(lambda connection: note_stop_sent(connection, job.attempt.id, now))
        return False

    async def _tell(self, job: JobInFlight, remaining_s: float) -> None:
        try:
            await self._deps.assembly.tell(job.attempt.id, _wish(job.desired), remaining_s, job.version)
        except OSError as error:  # the job owns that folder, and the backend's signal reaches it all the same
            _log.warning("a runner cannot be told of the stop", attempt=job.attempt.id, error=str(error))

    async def _carry_out(self, executor: Executor, job: JobInFlight, decision: Decision) -> None:
        match decision:
            case Wait(note):
                if note is not None:
                    await self._apply.note(job, note)
            case NoteGone(at, engine):
                await self._deps.ledger.write(lambda connection: note_gone(connection, job.attempt.id, at, engine))
            case CloseDoor():
                answer = await executor.fence(job.attempt.id)
                if isinstance(answer, Gone) and answer.fenced:
                    await self._apply.move(job, [decision.reason], note=decision.note)
            case EndNow(note):
                await self._end_now(executor, job, note)
            case Move():
                await self._apply.decision(job, decision)

    async def _end_now(self, executor: Executor, job: JobInFlight, note: str) -> None:
        try:
            await executor.stop(job.attempt.id, 0.0)
        except BackendUnreachable as error:
            note = say("note.waiting_end", note=note, node=job.attempt.target.node, why=error.said)
        else:
            now = self._deps.clock.now()
            await self._deps.ledger.write(lambda connection: note_stop_sent(connection, job.attempt.id, now))
        await self._apply.note(job, note)


def _wish(desired: DesiredState) -> Desired:
    return "stop" if desired is DesiredState.STOP else "pause"


def _is_under_way(observation: Observation) -> bool:
    """Whether the backend goes on by itself. A container that was made and never started does not: its maker died."""
    return isinstance(observation, Seen) and (observation.phase is not Phase.PREPARING or observation.pull is not None)


def _has_exited(observation: Observation) -> bool:
    return isinstance(observation, Seen) and observation.phase is Phase.EXITED
