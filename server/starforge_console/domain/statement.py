"""The statement of a quota: each of its numbers is the sum of what runs that it names hold and have used. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from starforge_console.domain.gpu_hours import Span, measure
from starforge_console.domain.quota import Holder, Limit, Member

STEP_S: Final = 36
"""A hundredth of a GPU-hour: runs are stated in such steps, so that what people read adds up as well."""


class HeldRun(NamedTuple):
    """A job that holds a place or is paused. `is_silent`: its machine does not answer, and it counts all the same."""

    user_id: int
    job: str
    gpus: int
    is_silent: bool = False


class RunUse(NamedTuple):
    """What one job adds to a quota: GPUs and a job held now, GPU-seconds of the last 24 hours, bytes on the storage."""

    job: str
    user: str
    gpus: int
    jobs: int
    gpu_s: int
    is_silent: bool = False
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Counted:
    """What counts of every user's jobs: what is held, the last day's spans, and bytes by user and job."""

    held: Sequence[HeldRun] = ()
    spans: Iterable[Span] = ()
    stored: Mapping[tuple[int, str], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QuotaLine:
    """One holder's limit, and the runs that count against it: what holds most first."""

    holder: Holder
    limit: Limit
    runs: tuple[RunUse, ...] = ()

    @property
    def gpus(self) -> int:
        """GPUs held now."""
        return sum(run.gpus for run in self.runs)

    @property
    def jobs(self) -> int:
        """Jobs that run or are paused now."""
        return sum(run.jobs for run in self.runs)

    @property
    def gpu_s(self) -> int:
        """GPU-seconds of the last 24 hours."""
        return sum(run.gpu_s for run in self.runs)

    @property
    def bytes(self) -> int:
        """Bytes on the storage."""
        return sum(run.bytes for run in self.runs)


def build_lines(
    limits: Mapping[Holder, Limit], members: Mapping[int, Member], counted: Counted, now: float
) -> list[QuotaLine]:
    """What each of these holders has, has used and stores at `now`, by what counts."""
    used: dict[tuple[int, str], float] = {}
    for span in counted.spans:
        key = (span.user_id, span.job)
        used[key] = used.get(key, 0.0) + measure(span, now)
    held = {(run.user_id, run.job): run for run in counted.held}
    by_holder: dict[Holder, list[RunUse]] = {holder: [] for holder in limits}
    for user, job in dict.fromkeys((*held, *used, *counted.stored)):
        key = (user, job)
        run, gpu_s, stored = held.get(key), _round(used.get(key, 0.0)), counted.stored.get(key, 0)
        if run is None and not gpu_s and not stored:
            continue
        gpus, is_silent = (run.gpus, run.is_silent) if run else (0, False)
        use = RunUse(job, members[user].user, gpus, int(run is not None), gpu_s, is_silent, stored)
        for holder in members[user].holders:
            if holder in by_holder:
                by_holder[holder].append(use)
    return [QuotaLine(holder, limits[holder], _rank(runs)) for holder, runs in by_holder.items()]


def _round(gpu_s: float) -> int:
    return round(gpu_s / STEP_S) * STEP_S


def _rank(runs: Sequence[RunUse]) -> tuple[RunUse, ...]:
    """What holds most now first, then what has the largest part of the hours or of the bytes."""
    all_s, all_bytes = sum(run.gpu_s for run in runs) or 1, sum(run.bytes for run in runs) or 1
    return tuple(
        sorted(runs, key=lambda run: (-run.gpus, -run.jobs, -max(run.gpu_s / all_s, run.bytes / all_bytes), run.job))
    )
