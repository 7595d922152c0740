"""Reconcile: asks every backend what became of its attempts, carries out stops, and applies what was decided."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

import structlog

from starforge.contract.capsule import Desired
from starforge.contract.executor import Executor
from starforge.contract.ids import AttemptId
from starforge.contract.observation import Gone, NoSignal, Observation, Phase, Seen
from starforge.contract.states import DesiredState, JobState
from starforge.errors import BackendUnreachable
from starforge_console.domain.job import JobInFlight
from starforge_console.domain.reconcile import CloseDoor, Decision, Move, NoteGone, Wait, decide
from starforge_console.ledger.in_flight import list_in_flight, note_gone, note_stop_sent
from starforge_console.scheduler.apply import Apply
from starforge_console.scheduler.deps import SchedulerDeps
from starforge_console.scheduler.launch import Launcher

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

    async def run_once(self) -> float:
        """Bring every job in flight to where its backend says it is; gives the seconds until the next round is due."""
        jobs = await self._deps.ledger.read(list_in_flight)
        by_fleet: dict[str, list[JobInFlight]] = {}
        for job in jobs:
            by_fleet.setdefault(job.attempt.target.fleet, []).append(job)
        await asyncio.gather(*(self._fleet(fleet, members) for fleet, members in by_fleet.items()))
        if any(job.desired is not DesiredState.RUN or job.state is JobState.PENDING for job in jobs):
            return BUSY_S
        if any(job.state is JobState.SUBMITTED or job.attempt.gone_since is not None for job in jobs):
            return UNSETTLED_S
        return self._deps.reconcile_s

    async def _fleet(self, fleet: str, jobs: Sequence[JobInFlight]) -> None:
        executor = self._deps.executors.get(fleet)
        if executor is None:
            await asyncio.gather(*(self._apply.note(job, f"no executor serves fleet {fleet}") for job in jobs))
            return
        seen = await executor.observe([job.attempt.id for job in jobs])
        await asyncio.gather(*(self._job(executor, job, seen) for job in jobs))

    async def _job(self, executor: Executor, job: JobInFlight, seen: Mapping[AttemptId, Observation]) -> None:
        observation = seen.get(job.attempt.id, NoSignal(reason="the backend said nothing of this attempt"))
        if job.state is JobState.SUBMITTED:
            if self._launcher.is_launching(job.id):
                return
            if not _is_under_way(observation):
                await self._launcher.settle(job)
                return
        if isinstance(observation, Seen) and job.attempt.gone_since is not None:
            await self._deps.ledger.write(lambda connection: note_gone(connection, job.attempt.id, None))
        if job.desired is not DesiredState.RUN and not _has_exited(observation):
            await self._stop(executor, job, observation)
        record = None
        if isinstance(observation, Gone) or _has_exited(observation):
            record = await self._deps.records.exit_record(job.attempt.id)
        await self._carry_out(executor, job, decide(job, observation, record, self._deps.clock.now()))

    async def _stop(self, executor: Executor, job: JobInFlight, observation: Observation) -> None:
        now = self._deps.clock.now()
        remaining_s = max(0.0, (job.stop_by or now) - now)
        await self._deps.assembly.tell(job.attempt.id, _wish(job.desired), remaining_s, job.version)
        try:
            if isinstance(observation, Seen) and observation.phase is Phase.PREPARING:
                await executor.fence(job.attempt.id)  # nothing runs yet: closing the door is the whole stop
            await executor.stop(job.attempt.id, remaining_s)
        except BackendUnreachable as error:
            await self._apply.note(job, f"waiting for {job.attempt.target.node} to carry out the stop: {error}")
            return
        if job.attempt.stop_sent_at is None:
            await self._deps.ledger.write(lambda connection: note_stop_sent(connection, job.attempt.id, now))

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
            case Move():
                await self._apply.decision(job, decision)


def _wish(desired: DesiredState) -> Desired:
    return "stop" if desired is DesiredState.STOP else "pause"


def _is_under_way(observation: Observation) -> bool:
    """Whether the backend goes on by itself. A container that was made and never started does not: its maker died."""
    return isinstance(observation, Seen) and (observation.phase is not Phase.PREPARING or observation.pull is not None)


def _has_exited(observation: Observation) -> bool:
    return isinstance(observation, Seen) and observation.phase is Phase.EXITED
