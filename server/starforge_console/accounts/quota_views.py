"""Limits as messages of the API, with what counts against them."""

from collections.abc import Sequence

from starforge.contract.quotas import RUNS_NAMED, Held, OtherRuns, QuotaRun, QuotaView
from starforge_console.domain.statement import QuotaLine, RunUse


def show_quota(line: QuotaLine) -> QuotaView:
    """A limit as a message, with the runs that count against it."""
    limit = line.limit
    return QuotaView(
        kind=line.holder.kind,
        name=line.holder.name,
        gpus=limit.gpus,
        jobs=limit.jobs,
        series=None if limit.series is None else tuple(sorted(limit.series)),
        gpu_hours=limit.gpu_hours,
        storage_gib=limit.storage_gib,
        profiles=None if limit.profiles is None else tuple(sorted(limit.profiles)),
        held=Held(gpus=line.gpus, jobs=line.jobs),
        gpu_seconds=line.gpu_s,
        stored_bytes=line.bytes,
        runs=tuple(map(_show_run, line.runs[:RUNS_NAMED])),
        other_runs=_sum_up(line.runs[RUNS_NAMED:]),
    )


def _show_run(run: RunUse) -> QuotaRun:
    return QuotaRun(
        job=run.job,
        user=run.user,
        gpus=run.gpus,
        jobs=run.jobs,
        gpu_seconds=run.gpu_s,
        stored_bytes=run.bytes,
        unanswered=run.is_silent,
    )


def _sum_up(runs: Sequence[RunUse]) -> OtherRuns | None:
    if not runs:
        return None
    return OtherRuns(
        runs=len(runs),
        gpus=sum(run.gpus for run in runs),
        jobs=sum(run.jobs for run in runs),
        gpu_seconds=sum(run.gpu_s for run in runs),
        stored_bytes=sum(run.bytes for run in runs),
    )
