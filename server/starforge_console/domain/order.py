"""Who is next: what an administrator moved, then priority, fair share, age and id: a queue always has one order."""

from collections.abc import Iterable, Mapping
from typing import Final

from starforge_console.domain.fair_share import NO_SHARE, Share
from starforge_console.domain.job import QueuedJob

_NOBODY: Final[Mapping[int, Share]] = {}


def order_queue(queued: Iterable[QueuedJob], shares: Mapping[int, Share] = _NOBODY) -> list[QueuedJob]:
    """`queued` in the order in which the jobs are to be placed; `shares` by user, one without has used nothing."""

    def rank(job: QueuedJob) -> tuple[int, int, float, float, float, str]:
        share = shares.get(job.user_id, NO_SHARE)
        return (-job.ahead, -job.priority, share.team_gpu_s, share.user_gpu_s, job.submitted_at, job.id)

    return sorted(queued, key=rank)
