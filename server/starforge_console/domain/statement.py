"""The statement of a quota: each of its numbers is the sum of what runs that it names hold and have used. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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
    """What one job adds to a quota: GPUs and a job held now, and GPU-seconds of the last 24 hours."""

    job: str
    user: str
    gpus: int
    jobs: int
    gpu_s: int
    is_silent: bool = False


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


def build_lines(
    limits: Mapping[Holder, Limit],
    members: Mapping[int, Member],
    held: Sequence[HeldRun],
    spans: Iterable[Span],
    now: float,
) -> list[QuotaLine]:
    """What each of these holders has and has used at `now`, as every user's jobs and the last day's spans say it."""
    used: dict[tuple[int, str], float] = {}
    for span in spans:
        key = (span.user_id, span.job)
        used[key] = used.get(key, 0.0) + measure(span, now)
    runs = [(run.user_id, _use_of(run, members, used.pop((run.user_id, run.job), 0.0))) for run in held]
    runs += [
        (user, RunUse(job, members[user].user, 0, 0, _round(gpu_s))) for (user, job), gpu_s in used.items() if gpu_s
    ]
    by_holder: dict[Holder, list[RunUse]] = {}
    for user, run in runs:
        for holder in members[user].holders:
            if holder in limits:
                by_holder.setdefault(holder, []).append(run)
    return [
        QuotaLine(holder, limit, tuple(sorted(by_holder.get(holder, ()), key=_rank)))
        for holder, limit in limits.items()
    ]


def _use_of(run: HeldRun, members: Mapping[int, Member], gpu_s: float) -> RunUse:
    return RunUse(run.job, members[run.user_id].user, run.gpus, 1, _round(gpu_s), run.is_silent)


def _round(gpu_s: float) -> int:
    return round(gpu_s / STEP_S) * STEP_S


def _rank(run: RunUse) -> tuple[int, int, int, str]:
    return (-run.gpus, -run.jobs, -run.gpu_s, run.job)
