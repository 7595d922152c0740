"""Launch: takes a submitted attempt to its target, and finds out when no answer came."""

import contextlib
from collections.abc import Iterator
from typing import Final

import structlog

from starforge.contract.ids import JobId
from starforge.contract.observation import Gone, NoSignal, Seen
from starforge.contract.states import DesiredState, Reason
from starforge.errors import BackendUnreachable, LaunchRefused, NoCapacity, NodeFault
from starforge.said.sentence import say
from starforge_console.domain.job import JobInFlight
from starforge_console.domain.reconcile import end_of_fenced
from starforge_console.ledger.in_flight import find_in_flight, lease_submitted
from starforge_console.scheduler.apply import Apply
from starforge_console.scheduler.deps import SchedulerDeps
from starforge_console.scheduler.tasks import KeyedTasks
from starforge_console.wakeups import BACKEND

LAUNCH_LEASE_S: Final = 300.0
"""How long one launch may keep its job from other movers; it is over when the launch is."""

_log = structlog.get_logger("launch")


class Launcher:
    """Launches attempts, each in a task of its own, so that a slow machine holds up no other."""

    def __init__(self, deps: SchedulerDeps, apply: Apply) -> None:
        self._deps = deps
        self._apply = apply
        self._tasks = KeyedTasks[JobId]("launch")
        self._expected: set[JobId] = set()

    @contextlib.contextmanager
    def expecting(self, job_id: JobId) -> Iterator[None]:
        """Count the job as launching while it is taken out of the queue, so that nobody fences what is about to go."""
        self._expected.add(job_id)
        try:
            yield
        finally:
            self._expected.discard(job_id)

    def begin(self, job_id: JobId) -> None:
        """Launch the newest attempt of a SUBMITTED job, unless that is under way."""
        self._tasks.begin(job_id, lambda: self._launch(job_id))

    async def settle_all(self) -> None:
        """Wait until no launch is under way, however long each takes."""
        while keys := self._tasks.keys():
            await self._tasks.wait(keys, LAUNCH_LEASE_S)

    async def close(self) -> None:
        """Leave what is under way: whoever comes next finds it by its target."""
        await self._tasks.close()

    async def _launch(self, job_id: JobId) -> None:
        job = await self._take(job_id)
        if job is None:
            return
        if job.desired is not DesiredState.RUN:
            await self.settle(job)
            return
        executor = self._deps.executors.get(job.attempt.target.fleet)
        if executor is None:
            _log.warning("no executor serves the fleet", job=job_id, fleet=job.attempt.target.fleet)
            return
        try:
            request = await self._deps.assembly.prepare(job)
            await executor.launch(request, job.attempt.target)
        except NoCapacity as error:
            await self._apply.move(job, [Reason.NO_CAPACITY], note=error.said)
        except NodeFault as error:
            await self._apply.move(job, [Reason.NODE_FAULT], note=error.said)
        except LaunchRefused as error:
            await self._apply.move(job, [Reason.LAUNCH_REFUSED], note=error.said)
        except BackendUnreachable as error:
            _log.warning("the launch's answer was lost", job=job_id, attempt=job.attempt.id, error=str(error))
            await self._apply.note(job, say("note.waiting", node=job.attempt.target.node, why=error.said))
        else:
            await self._apply.move(job, [Reason.LAUNCHED])
            self._deps.wakeups.notify(BACKEND)

    async def settle(self, job: JobInFlight) -> None:
        """Close the door on a SUBMITTED attempt whose launch is not known to have worked, and say what that showed.

        Nothing happens to a job that has moved on since `job` was read: its launch has been answered meanwhile.
        """
        executor = self._deps.executors.get(job.attempt.target.fleet)
        if executor is None:
            return
        now = await self._load(job.id)
        if now is None or now.version != job.version:
            return
        answer = await executor.fence(job.attempt.id)
        match answer:
            case Seen():
                await self._apply.move(job, [Reason.LAUNCHED], note=answer.note)
                self._deps.wakeups.notify(BACKEND)
            case Gone(fenced=True):
                await self._apply.move(job, [end_of_fenced(job)], note=say("note.not_reached"))
            case Gone():
                _log.error("a backend answered a fence without closing it", attempt=job.attempt.id)
            case NoSignal():
                await self._apply.note(job, say("note.waiting", node=job.attempt.target.node, why=answer.reason))

    def is_launching(self, job_id: JobId) -> bool:
        """Whether a launch of that job is under way here, or about to be."""
        return job_id in self._tasks or job_id in self._expected

    async def _load(self, job_id: JobId) -> JobInFlight | None:
        return await self._deps.ledger.read(lambda connection: find_in_flight(connection, job_id))

    async def _take(self, job_id: JobId) -> JobInFlight | None:
        """The job with its lease, where it is SUBMITTED and nobody else moves it."""
        guard, owner = self._deps.guard(), self._deps.owner
        until = guard.monotonic + LAUNCH_LEASE_S
        return await self._deps.ledger.write(lambda c: lease_submitted(c, job_id, owner, until, guard.monotonic))
