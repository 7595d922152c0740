"""What would start a waiting job now: the same job, asked for otherwise, decided by the pass itself. Pure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Final, NamedTuple

from starforge.contract.executor import FleetView, Target
from starforge.contract.launch import PoolRequest
from starforge.contract.states import Reason
from starforge_console.domain.job import QueuedJob
from starforge_console.domain.schedule import Snapshot, find_starts

_COUNTS_TRIED: Final = 16
"""From so many GPUs on, only the halves are tried."""


class Change(StrEnum):
    """What of a job's request is asked for otherwise."""

    GPUS = "gpus"
    """So many GPUs on each machine."""
    SERIES = "series"
    """GPUs of this series."""
    FLEET = "fleet"
    """This fleet, or any."""


class Alternative(NamedTuple):
    """With this change the job, submitted again, would start at once at `target`."""

    change: Change
    value: str
    target: Target


ANY: Final = "any"
"""The value of a change to a series or a fleet of whatever name."""


def find_alternatives(
    snapshot: Snapshot, job: QueuedJob, takes_gpus: Callable[[int], bool] = lambda _count: True
) -> list[Alternative]:
    """Single changes of `job`'s request that would start it now: the most GPUs that do, other series, other fleets.

    `takes_gpus` says whether the job may be submitted with so many GPUs on each machine. A changed job is a new one: it
    stands behind what its user has queued before.
    """
    queued = [one for one in snapshot.queued if one.id != job.id]
    asked = job._replace(
        submitted_at=snapshot.now, ahead=0, passed=0, number=1, reason=Reason.ADMITTED, queued_at=snapshot.now
    )
    changes = list(_list_changes(asked, snapshot))
    starts = find_starts(replace(snapshot, queued=queued), [changed for _, _, changed in changes])
    found = [
        Alternative(change, value, target)
        for (change, value, _), target in zip(changes, starts, strict=True)
        if target is not None and _is_admitted(job, target, snapshot)
    ]
    gpus = (one for one in found if one.change is Change.GPUS)
    most_gpus = next((one for one in gpus if takes_gpus(int(one.value))), None)
    return [*([most_gpus] if most_gpus else []), *(one for one in found if one.change is not Change.GPUS)]


def _is_admitted(job: QueuedJob, target: Target, snapshot: Snapshot) -> bool:
    """Whether a new job like this may be submitted there: a fleet that bounds all ends takes none without a limit."""
    return job.lasts_s is not None or target.fleet not in snapshot.releases


def _list_changes(job: QueuedJob, snapshot: Snapshot) -> Iterator[tuple[Change, str, QueuedJob]]:
    """Each change with the job that it makes; of GPUs the largest number first."""
    for count in _list_counts(max((pool.gpus_per_node for pool in job.pools), default=0)):
        yield Change.GPUS, str(count), job._replace(pools=_change_pools(job.pools, gpus_per_node=count))
    views = [view for name, view in snapshot.views.items() if job.fleet in {None, name}]
    asked = {pool.series for pool in job.pools if pool.gpus_per_node}
    for series in [None, *_list_series(views)] if asked else []:
        if asked != {series}:
            changed = job._replace(pools=_change_pools(job.pools, series=series))
            yield Change.SERIES, series or ANY, changed
    if job.fleet is not None:
        for fleet in sorted(snapshot.views):
            if fleet != job.fleet:
                yield Change.FLEET, fleet, job._replace(fleet=fleet)


def _list_counts(gpus: int) -> list[int]:
    if gpus <= _COUNTS_TRIED:
        return list(range(gpus - 1, 0, -1))
    return [gpus >> shift for shift in range(1, gpus.bit_length())]


def _list_series(views: Sequence[FleetView]) -> list[str]:
    return sorted({gpu.series for view in views for node in view.nodes for gpu in node.gpus if gpu.series is not None})


def _change_pools(pools: Sequence[PoolRequest], **parts: object) -> tuple[PoolRequest, ...]:
    """The pools with these parts of all that have GPUs."""
    return tuple(replace(pool, **parts) if pool.gpus_per_node else pool for pool in pools)  # type: ignore[arg-type]  # fields by name
