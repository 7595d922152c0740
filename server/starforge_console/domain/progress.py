"""What a job loses when it is ended now and goes on later: pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from starforge.said.sentence import say
from starforge.wording import describe_duration


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a job has done so far: the seconds that its attempts ran, and how many checkpoints they have committed."""

    ran_s: float
    checkpoints: int
    runs_now: bool


class Cause(StrEnum):
    """Why nothing is kept of a job's work."""

    NEVER_RESUMES = "never_resumes"
    NO_CHECKPOINT_YET = "no_checkpoint_yet"
    WRITES_NONE = "writes_none"


_CAUSES: Final = {
    Cause.NEVER_RESUMES: say("loss.never_resumes"),
    Cause.NO_CHECKPOINT_YET: say("loss.no_checkpoint_yet"),
    Cause.WRITES_NONE: say("loss.writes_none"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """What would be lost, and why nothing is kept of it."""

    work_s: float
    cause: Cause

    @property
    def said(self) -> str:
        """The same in words."""
        return say("loss.why", cause=_CAUSES[self.cause], lost=describe_duration(self.work_s))


def build_work(spans: Sequence[tuple[float | None, float | None]], checkpoints: int, now: float) -> Work:
    """`spans` are start and end of each attempt (Unix seconds), None where it did not start or has not ended."""
    ran_s = sum(max(0.0, (now if end is None else end) - start) for start, end in spans if start is not None)
    runs_now = any(start is not None and end is None for start, end in spans)
    return Work(ran_s=ran_s, checkpoints=checkpoints, runs_now=runs_now)


def find_loss(work: Work, *, writes_checkpoints: bool, resumes: bool) -> Loss | None:
    """What a pause would lose; None where nothing runs, or where it goes on from a checkpoint of its own."""
    if not work.runs_now:
        return None
    if not resumes:
        return Loss(work_s=work.ran_s, cause=Cause.NEVER_RESUMES)
    if work.checkpoints:
        return None
    return Loss(work_s=work.ran_s, cause=Cause.NO_CHECKPOINT_YET if writes_checkpoints else Cause.WRITES_NONE)
