"""What a wish to stop, pause, resume or retry does to a job: pure, so that a table in the tests shows every case.

A user's wish is stronger than the platform's, which drains machines and closes windows; and a stop that a user wished
is final for the attempt that it ends.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

from starforge.contract.states import FREE_OF_CHARGE, HOLDS_A_PLACE, DesiredState, JobState, Reason
from starforge.said.sentence import say

_WAITS: Final = frozenset({JobState.QUEUED, JobState.PAUSED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What the ledger says of the job that something is wished of."""

    state: JobState
    desired: DesiredState
    wished_for: Reason | None = None
    goes_on: bool = False
    will_retry: bool = False

    @property
    def holds_a_place(self) -> bool:
        """Whether an attempt of it is alive, as far as is known."""
        return self.state in HOLDS_A_PLACE

    @property
    def is_stopped_by_user(self) -> bool:
        """Whether a user wished its attempt's end, and not only a pause."""
        return self.desired is DesiredState.STOP and self.wished_for is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is wished of a job.

    Attributes:
        desired: STOP or PAUSE.
        wished_for: The reason that the end confirms (`drained`, `window_closed`); None where a user wishes it.
        grace_s: How long the job may take for its end; None: as long as the job itself says.
        goes_on: Whether the job goes on by itself after it: a paused one as soon as there is room and no maintenance,
            one that a window stopped at the window's next opening.
        goes_on_at: When a window's job may go on (Unix seconds).
        note: What the timeline says.

    """

    desired: DesiredState
    wished_for: Reason | None = None
    grace_s: float | None = None
    goes_on: bool = False
    goes_on_at: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Nothing:
    """There is nothing to do."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Keep the wish beside the state: the attempt is to end, and its end confirms it."""


@dataclass(frozen=True, slots=True)
class AtOnce:
    """Nothing is alive: apply these reasons now."""

    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class StayAsItIs:
    """The state stands, and the job does not go on by itself any more."""


@dataclass(frozen=True, slots=True)
class GoOnAfter:
    """The attempt is already told to end, which cannot be unsaid: the job goes on by itself once it is paused."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """It cannot be done."""

    why: str
    next_step: str


Answer: TypeAlias = Nothing | Ask | AtOnce | StayAsItIs | GoOnAfter | Refuse

_FINAL: Final = Refuse(say("fault.final"), say("fault.final_next"))
_STOPPING: Final = Refuse(say("fault.stopping"), say("fault.stopping_next"))


def decide_wish(job: Standing, wish: Wish) -> Answer:
    """What `wish` does to a job that stands as `job`."""
    if wish.wished_for is not None:
        return _decide_platform(job)
    return _decide_stop(job) if wish.desired is DesiredState.STOP else _decide_pause(job)


def decide_resume(job: Standing) -> Answer:
    """What a user's wish to go on does; nothing to a job that runs or waits for its turn anyway."""
    if job.state is JobState.PAUSED:
        return AtOnce((Reason.RESUMED,))
    refusal = _find_refusal_to_resume(job)
    if refusal is not None:
        return refusal
    if job.desired is DesiredState.RUN or job.goes_on or not job.holds_a_place:
        return Nothing()
    return GoOnAfter()


def decide_retry_by_user(job: Standing) -> Answer:
    """What a user's wish for another attempt does."""
    if job.state is JobState.FAILED:
        return AtOnce((Reason.RETRIED_BY_USER,))
    if job.state is JobState.STOPPED:
        return AtOnce((Reason.CONTINUED,))
    if job.state is JobState.SUCCEEDED:
        return _FINAL
    if job.state is JobState.PAUSED:
        return Refuse(say("fault.paused_not_ended"), say("fault.paused_not_ended_next"))
    return Refuse(say("fault.not_retried"), say("fault.not_retried_next"))


def find_left_s(stop_by: float | None, grace_s: float | None, now: float) -> float:
    """What is left of a stop's time: until `stop_by`, and however the clock was set, no more than it was given.

    `grace_s` is None of a stop that was wished before it was kept.
    """
    left_s = 0.0 if stop_by is None else max(0.0, stop_by - now)
    return left_s if grace_s is None else min(left_s, grace_s)


def confirmed_end(desired: DesiredState, wished_for: Reason | None) -> Reason:
    """What the end of a launched attempt that was to stop or to pause confirms."""
    if wished_for is not None:
        return wished_for
    return Reason.STOP_CONFIRMED if desired is DesiredState.STOP else Reason.PAUSE_CONFIRMED


def fenced_end(desired: DesiredState, wished_for: Reason | None) -> Reason:
    """What is true of an attempt that was closed off before its launch was known to have worked.

    Where the platform wished its end the job is queued again, as if it had never left: nothing of it was lost.
    """
    if desired is DesiredState.RUN:
        return Reason.NODE_FAULT
    if wished_for is Reason.DRAINED:
        return Reason.NO_CAPACITY
    return confirmed_end(desired, wished_for)


def stays_paused(desired: DesiredState, wished_for: Reason | None, failed: Reason, *, goes_on: bool) -> bool:
    """Whether an attempt that infrastructure ended before its pause could leaves the job paused, as its user wished."""
    return desired is DesiredState.PAUSE and wished_for is None and not goes_on and failed in FREE_OF_CHARGE


def _find_refusal_to_resume(job: Standing) -> Refuse | None:
    if job.state is JobState.SUCCEEDED:
        return _FINAL
    if job.state is JobState.STOPPED and job.goes_on:
        return Refuse(say("fault.window_goes_on"), say("fault.window_goes_on_next"))
    if job.state in {JobState.FAILED, JobState.STOPPED} and not job.will_retry:
        return Refuse(say("fault.not_paused"), say("fault.not_paused_next"))
    if job.is_stopped_by_user and not job.will_retry:
        return _STOPPING
    return None


def _decide_platform(job: Standing) -> Answer:
    """Only what runs undisturbed is asked: whoever asked before, its GPUs are given back soon."""
    return Ask() if job.holds_a_place and job.desired is DesiredState.RUN else Nothing()


def _decide_stop(job: Standing) -> Answer:
    if job.state in _WAITS:
        return AtOnce((Reason.STOP_REQUESTED,))
    if job.holds_a_place:
        return Nothing() if job.is_stopped_by_user else Ask()
    return StayAsItIs() if job.will_retry or job.goes_on else Nothing()


def _decide_pause(job: Standing) -> Answer:
    if job.state is JobState.QUEUED:
        return AtOnce((Reason.PAUSE_REQUESTED,))
    if job.state is JobState.PAUSED:
        return StayAsItIs() if job.goes_on else Nothing()
    if job.holds_a_place:
        return _decide_pause_of_living(job)
    if job.state is JobState.FAILED and job.will_retry:
        return AtOnce((Reason.RETRIED, Reason.PAUSE_REQUESTED))
    if job.goes_on:
        return Refuse(say("fault.window_stopped"), say("fault.window_stopped_next"))
    return Refuse(say("fault.has_ended"), say("fault.has_ended_next"))


def _decide_pause_of_living(job: Standing) -> Answer:
    if job.is_stopped_by_user:
        return _STOPPING
    is_paused_by_user = job.desired is DesiredState.PAUSE and job.wished_for is None
    return Nothing() if is_paused_by_user and not job.goes_on else Ask()
