"""Which of a cluster's jobs are attempts of ours: pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from starforge.contract.ids import AttemptId
from starforge_console.executors.slurm.native import NativeJob
from starforge_console.executors.slurm.states import StartMark, is_living
from starforge_console.executors.slurm.submission import find_attempt, find_owner

Components: TypeAlias = Sequence[NativeJob]
"""One job: its components, the leader first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ours:
    """What tells a job of ours from a stranger's: anybody in the cluster may write any name and comment.

    Attributes:
        install: Named by the job's comment.
        users: Whose jobs count.
        launched: As whom attempts were sent from here: nobody else's job counts for them, and a cluster may put words
            of its own in place of their comment.

    """

    install: str
    users: Collection[str]
    launched: Mapping[AttemptId, str]


def group_jobs(jobs: Collection[NativeJob], ours: Ours) -> Mapping[AttemptId, Sequence[Components]]:
    """The jobs of each attempt of ours, oldest first; more than one where a submission arrived twice."""
    found: dict[AttemptId, dict[int, list[NativeJob]]] = {}
    for job in jobs:
        attempt = find_attempt_of(job, ours)
        if attempt is not None:
            found.setdefault(attempt, {}).setdefault(job.het_job_id or job.job_id, []).append(job)
    return {
        attempt: [sorted(by_id[leader], key=lambda job: job.het_offset) for leader in sorted(by_id)]
        for attempt, by_id in found.items()
    }


def take_newest(jobs: Collection[NativeJob]) -> Components:
    """One record of each component, the leader's first: the accounting keeps one of each time that Slurm queued it.

    Not every version counts there how often that was: then the records do.
    """
    found: dict[tuple[int, int], list[NativeJob]] = {}
    for job in jobs:
        found.setdefault((job.het_offset, job.job_id), []).append(job)
    newest = [(max(records, key=_order), len(records) - 1) for _, records in sorted(found.items())]
    return [replace(job, restarts=max(job.restarts, again)) for job, again in newest]


def _order(job: NativeJob) -> tuple[float, int, float]:
    return job.submitted_at or 0.0, job.restarts, job.started_at or 0.0


def choose_job(groups: Sequence[Components], mark: StartMark | None, known: int | None) -> Components:
    """The one that is the attempt: which began it, else the one that is known, else the first that lives."""
    for wanted in (mark.job_id if mark is not None else None, known):
        for components in groups:
            if components[0].job_id == wanted:
                return components
    return next((components for components in groups if is_living(components)), groups[0])


def find_attempt_of(job: NativeJob, ours: Ours) -> AttemptId | None:
    """Whose job it is; None for a stranger's."""
    attempt = find_attempt(job.name)
    if attempt is None or job.user not in ours.users or job.user != ours.launched.get(attempt, job.user):
        return None
    owner = find_owner(job.comment)
    if owner is None:
        return attempt if attempt in ours.launched else None
    return attempt if (owner.install, owner.attempt) == (ours.install, attempt) else None
