"""`sf quota`: what limits the user's jobs, and the runs that add up to what is held and used."""

from typing import Final

import click

from starforge.cli.output import json_option, note, print_json, print_table
from starforge.cli.session import open_console
from starforge.contract.quotas import OtherRuns, QuotaRun, QuotaView
from starforge.errors import NotFound
from starforge.wording import count_of, describe_bytes

_HOUR_S: Final = 3600.0


@click.command()
@json_option
def quota(as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Show what limits your jobs, and which runs count.

    Limits bind you, and the jobs of your team together. GPUs and jobs count from when
    a job leaves the queue until it has ended; a paused one counts as a job. GPU-hours
    are those of the last 24 hours, of what has ended as well. Of a run whose machine
    does not answer they go on, and what it turns out not to have held comes back.
    Storage is what artifacts, checkpoints and logs hold, until the job is deleted
    (`sf job delete`) or retention removes them.

    \b
    JSON: {items: [{kind, name, gpus, jobs, series: [text] or null, gpu_hours,
           storage_gib, profiles: [text] or null,
           held: {gpus, jobs}, gpu_seconds, stored_bytes,
           runs: [{job, user, gpus, jobs, gpu_seconds, stored_bytes, unanswered}],
           other_runs: {runs, gpus, jobs, gpu_seconds, stored_bytes} or null}]}
    """
    with open_console() as console:
        quotas = console.quotas()
    if quotas is None:
        raise NotFound("this console tells of no quotas", next_step="ask its administrator to upgrade it")
    if as_json:
        print_json(quotas.model_dump(mode="json"))
        return
    for one in quotas.items:
        click.echo(f"{one.kind} {one.name}: {describe_quota(one) if is_limited(one) else 'no limit'}")
        rows = [
            (run.job, run.user, *_figures(run.gpus, run.jobs, run), "no" if run.unanswered else "") for run in one.runs
        ]
        if one.other_runs:
            rest = one.other_runs
            rows.append((f"{rest.runs} more", "", *_figures(rest.gpus, rest.jobs, rest), ""))
        if rows:
            total = ("together", "", *_figures(one.held.gpus, one.held.jobs, one), "")
            print_table(("RUN", "USER", "GPUS", "JOBS", "GPU-HOURS IN 24 H", "STORED", "ANSWERS"), [*rows, total])
        else:
            note("nothing counts")


def is_limited(quota: QuotaView) -> bool:
    """Whether it limits anything."""
    numbers = (quota.gpus, quota.jobs, quota.gpu_hours, quota.storage_gib)
    return any(part is not None for part in (*numbers, quota.series, quota.profiles))


def describe_quota(quota: QuotaView) -> str:
    """What is held of what may be, and used, in words."""
    parts = [
        f"{held} of {count_of(most, noun)} held" if most is not None else f"{count_of(held, noun)} held"
        for held, most, noun in ((quota.held.gpus, quota.gpus, "GPU"), (quota.held.jobs, quota.jobs, "job"))
    ]
    if quota.gpu_hours is not None:
        used = f"{_hours(quota.gpu_seconds)} of {count_of(quota.gpu_hours, 'GPU-hour')}"
        parts.append(f"{used} of the last 24 hours used")
    if quota.storage_gib is not None:
        parts.append(f"{describe_bytes(quota.stored_bytes)} of {quota.storage_gib} GiB stored")
    allowed = [] if quota.series is None else [f"series {', '.join(quota.series)} allowed"]
    allowed += [] if quota.profiles is None else [f"profiles {', '.join(quota.profiles)} allowed"]
    return ", ".join([*parts, *allowed])


def _figures(gpus: int, jobs: int, used: QuotaRun | OtherRuns | QuotaView) -> tuple[str, str, str, str]:
    return str(gpus), str(jobs), _hours(used.gpu_seconds), describe_bytes(used.stored_bytes)


def _hours(gpu_s: int) -> str:
    return f"{gpu_s / _HOUR_S:.2f}"
