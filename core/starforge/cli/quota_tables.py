"""How quotas of several users and teams are shown side by side, here and by `starforge-console`."""

from collections.abc import Sequence
from typing import Final

from starforge.cli.output import note, print_table
from starforge.contract.quotas import OtherRuns, QuotaRun, QuotaView
from starforge.wording import describe_bytes

_HOUR_S: Final = 3600.0
_HEADS: Final = ("HOLDER", "GPUS", "JOBS", "GPU-HOURS IN 24 H", "STORED", "SERIES", "PROFILES")
_RUN_HEADS: Final = ("HOLDER", "RUN", "USER", "GPUS", "JOBS", "GPU-HOURS IN 24 H", "STORED")


def print_quotas(quotas: Sequence[QuotaView], *, runs: bool = False) -> None:
    """Print every limit with what counts against it; with `runs` those that add up to it."""
    if not quotas:
        note("nobody has a quota")
        return
    print_table(_HEADS, [_describe(one) for one in quotas])
    counted = [row for one in quotas for row in _describe_runs(one)] if runs else []
    if counted:
        note("")
        print_table(_RUN_HEADS, counted)


def _describe(quota: QuotaView) -> tuple[str, ...]:
    used, stored = _hours(quota.gpu_seconds), describe_bytes(quota.stored_bytes)
    return (
        f"{quota.kind} {quota.name}",
        _describe_part(quota.held.gpus, quota.gpus),
        _describe_part(quota.held.jobs, quota.jobs),
        used if quota.gpu_hours is None else f"{used} of {quota.gpu_hours}",
        stored if quota.storage_gib is None else f"{stored} of {quota.storage_gib} GiB",
        _describe_names(quota.series),
        _describe_names(quota.profiles),
    )


def _describe_runs(quota: QuotaView) -> list[tuple[str, ...]]:
    holder = f"{quota.kind} {quota.name}"
    rows: list[tuple[str, ...]] = [
        (holder, run.job, run.user, *_figures(run, silent=run.unanswered)) for run in quota.runs
    ]
    if quota.other_runs:
        rows.append((holder, f"{quota.other_runs.runs} more", "", *_figures(quota.other_runs)))
    return rows


def _figures(run: QuotaRun | OtherRuns, *, silent: bool = False) -> tuple[str, str, str, str]:
    hours = _hours(run.gpu_seconds) + (" (does not answer)" if silent else "")
    return str(run.gpus), str(run.jobs), hours, describe_bytes(run.stored_bytes)


def _describe_part(held: int, most: int | None) -> str:
    return f"{held} of {most}" if most is not None else f"{held}"


def _describe_names(names: Sequence[str] | None) -> str:
    return "all" if names is None else ", ".join(names)


def _hours(gpu_s: int) -> str:
    return f"{gpu_s / _HOUR_S:.2f}"
