"""Who is next: priority, then age, then id, so that the same queue always has the same order."""

from collections.abc import Iterable

from starforge_console.domain.job import QueuedJob


def order_queue(queued: Iterable[QueuedJob]) -> list[QueuedJob]:
    """`queued` in the order in which the jobs are to be placed."""
    return sorted(queued, key=lambda job: (-job.priority, job.submitted_at, job.id))
