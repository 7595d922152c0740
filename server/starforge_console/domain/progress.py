"""What a job loses when it is ended now and goes on later: pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from starforge.wording import describe_duration


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a job has done so far: the seconds that its attempts ran, and how many checkpoints they have committed."""

    ran_s: float
    checkpoints: int
    runs_now: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """What would be lost, and why nothing is kept of it."""

    work_s: float
    why: str

    def __str__(self) -> str:
        lost = describe_duration(self.work_s)
        return f"{self.why}: afterwards it starts from the beginning, and {lost} of work would be lost"


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
        return Loss(work_s=work.ran_s, why="its resume setting is never")
    if work.checkpoints:
        return None
    why = "it has committed no checkpoint so far" if writes_checkpoints else "its method writes no checkpoints"
    return Loss(work_s=work.ran_s, why=why)
