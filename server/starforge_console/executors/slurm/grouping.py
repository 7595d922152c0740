"""Which of a cluster's jobs are attempts of ours: pure."""

from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

from starforge.contract.ids import AttemptId
from starforge_console.executors.slurm.native import NativeJob
from starforge_console.executors.slurm.states import StartMark, is_living
from starforge_console.executors.slurm.submission import find_owner, name_job

Components: TypeAlias = Sequence[NativeJob]
"""One job: its components, the leader first."""


def group_jobs(
    jobs: Collection[NativeJob], install: str, users: Collection[str]
) -> Mapping[AttemptId, Sequence[Components]]:
    """The jobs of each attempt of `install`, oldest first; more than one where a submission arrived twice.

    Anybody in the cluster may write any name and comment: only those of `users` count.
    """
    found: dict[AttemptId, dict[int, list[NativeJob]]] = {}
    for job in jobs:
        owner = find_owner(job.comment)
        if owner is None or owner.install != install or job.name != name_job(owner.attempt) or job.user not in users:
            continue
        found.setdefault(owner.attempt, {}).setdefault(job.het_job_id or job.job_id, []).append(job)
    return {
        attempt: [sorted(by_id[leader], key=lambda job: job.het_offset) for leader in sorted(by_id)]
        for attempt, by_id in found.items()
    }


def choose_job(groups: Sequence[Components], mark: StartMark | None, known: int | None) -> Components:
    """The one that is the attempt: which began it, else the one that is known, else the first that lives."""
    for wanted in (mark.job_id if mark is not None else None, known):
        for components in groups:
            if components[0].job_id == wanted:
                return components
    return next((components for components in groups if is_living(components)), groups[0])
