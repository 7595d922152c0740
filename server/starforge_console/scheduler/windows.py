"""Windows: ends in time what may not run while they are closed, and lets it go on once they are open."""

import structlog

from starforge.contract.states import DesiredState, Reason
from starforge.said.sentence import say, say_list
from starforge_console.domain.job import JobInFlight
from starforge_console.domain.opening import (
    Asker,
    Bound,
    Windows,
    describe_instant,
    find_closing,
    list_closed,
    say_window,
)
from starforge_console.domain.wishes import Wish
from starforge_console.ledger.in_flight import list_in_flight
from starforge_console.ledger.moves import Change, move
from starforge_console.ledger.windows import (
    StoppedJob,
    give_up,
    list_askers,
    list_stopped_by_window,
    load_windows,
    put_off,
    still_bind,
)
from starforge_console.ledger.wishes import wish
from starforge_console.scheduler.deps import SchedulerDeps
from starforge_console.wakeups import BACKEND, job_topic

_NEVER = say("note.never_goes_on")

_log = structlog.get_logger("windows")


class OpeningHours:
    """One look at all jobs whose windows close or open.

    What it did is in the ledger with the job: a wish that stands is not wished again, and a job that was stopped goes
    on at the time that was kept with it, whatever the clock says meanwhile. So each edge works once.
    """

    def __init__(self, deps: SchedulerDeps) -> None:
        self._deps = deps

    async def run_once(self) -> tuple[Windows, float | None]:
        """Close and open; gives the windows in force, and when the next of these edges is due (Unix seconds)."""
        windows, stopped = await self._deps.ledger.read(lambda c: (load_windows(c), list_stopped_by_window(c)))
        due = [await self._open(windows, job) for job in stopped]
        if windows.kept:
            in_flight, askers = await self._deps.ledger.read(lambda c: (list_in_flight(c), list_askers(c)))
            due += [await self._close(windows, job, askers[job.id]) for job in in_flight]
        return windows, min((at for at in due if at is not None), default=None)

    async def _open(self, windows: Windows, job: StoppedJob) -> float | None:
        """Let a stopped job go on if its time has come; gives when it comes otherwise."""
        guard = self._deps.guard()
        if job.at > guard.now:
            return job.at
        if windows.bind_lost(job.asker.user_id, job.asker.pools, job.asker.fleet):
            return None  # nobody can say whether they are open: it is looked at again with every pass
        start = windows.find_start(job.asker, self._deps.executors, guard.now)
        if start is not None and start > guard.now:
            await self._deps.ledger.write(lambda c: put_off(c, job.ref, start))
            return start
        if start is None:
            await self._deps.ledger.write(lambda c: give_up(c, job.ref, guard.now, _NEVER))
        else:
            change = Change(note=say("note.windows_open"))
            await self._deps.ledger.write(lambda c: move(c, job.ref, [Reason.WINDOW_OPENED], guard, change))
            _log.info("goes on", job=job.ref.id)
        self._deps.wakeups.notify(job_topic(job.ref.id))
        return None

    async def _close(self, windows: Windows, job: JobInFlight, asker: Asker) -> float | None:
        """Wish the end of a job whose windows close; gives when that is due otherwise."""
        if job.desired is not DesiredState.RUN:
            return None
        # It started while they were open: a clock that was put back since does not take it to the time before.
        at = max(self._deps.clock.now(), job.attempt.dequeued_at)
        bound = windows.bind(asker.user_id, asker.pools, job.attempt.target.fleet)
        closed = list_closed(bound, at, asker.grace_s)
        if not closed:
            return find_closing(bound, at, asker.grace_s)
        start = windows.find_start(asker, self._deps.executors, at)
        wished = build_wish(closed, start)
        guard = self._deps.guard()
        # What changed since was told to this loop: its next look is at the windows as they are then.
        if await self._deps.ledger.write(
            lambda c: still_bind(c, closed, asker.user_id) and wish(c, job.id, wished, guard)
        ):
            _log.info("its windows close", job=job.id, windows=[str(one.of) for one in closed], goes_on_at=start)
            self._deps.wakeups.notify(job_topic(job.id), BACKEND)
        return None


def build_wish(closed: Bound, start: float | None) -> Wish:
    """The wish that ends a job because these windows close; it may start again at `start`, where that comes. Pure."""
    goes_on = start is not None and all(one.goes_on for one in closed)
    names = say_list("list.and", [say_window(one.of) for one in closed])
    if start is None:
        after = say("note.never_opens")
    elif goes_on:
        after = say("note.goes_on_at", at=describe_instant(start, closed[0].window.zone))
    else:
        after = say("note.stays_stopped")
    return Wish(
        desired=DesiredState.STOP,
        wished_for=Reason.WINDOW_CLOSED,
        goes_on=goes_on,
        goes_on_at=start if goes_on else None,
        note=say("note.window_closes", windows=names, after=after),
    )
