"""Whether a cluster can be used as it is set: what an administrator asks before jobs are sent to it."""

import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from starforge_console.executors.slurm.cluster import Cluster, Picture
from starforge_console.executors.slurm.records import SlurmLaunches
from starforge_console.executors.slurm.settings import ClusterSettings

_NAMED: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterReport:
    """What was found.

    Attributes:
        version: The version of the REST API that is spoken.
        accounting: That of its accounting routes; empty where there are none: then a job that Slurm has forgotten
            before its end was seen is `Gone`.
        max_time_s: The partition's limit; None for none.
        nodes: How many the partition has; `accepting` of them take jobs now.
        gpus: How many of each series; those of unknown types stand under an empty name.
        warnings: What lets jobs wait or fail.

    """

    version: str
    accounting: str
    partition: str
    max_time_s: float | None
    nodes: int
    accepting: int
    gpus: Mapping[str, int]
    warnings: tuple[str, ...]


async def check_cluster(
    settings: ClusterSettings, series_of: Callable[[str], str | None], job_uid: int
) -> ClusterReport:
    """Ask the cluster as the executor does; nothing is submitted or kept. Raises BackendUnreachable.

    `job_uid` is whom the console gives attempts' folders to.
    """
    with tempfile.TemporaryDirectory() as folder:
        alone = replace(settings, state_dir=Path(folder))
        cluster = Cluster(alone, SlurmLaunches(alone.state_dir), series_of)
        try:
            dialect = await cluster.rest.negotiate()
            picture = await cluster.load()
        finally:
            await cluster.rest.close()
    view = picture.view
    gpus = Counter(gpu.series or "" for node in view.nodes for gpu in node.gpus)
    return ClusterReport(
        version=dialect.version,
        accounting=dialect.accounting,
        partition=picture.partition.name,
        max_time_s=picture.partition.max_time_s,
        nodes=len(view.nodes),
        accepting=sum(node.accepts for node in view.nodes),
        gpus=dict(sorted(gpus.items())),
        warnings=(*_look_at_owner(settings, job_uid), *_find_warnings(settings, picture)),
    )


def _look_at_owner(settings: ClusterSettings, job_uid: int) -> list[str]:
    if job_uid != 0 or settings.submitters or settings.user == "root":
        return []
    user = settings.user
    warning = (
        f"the folders of attempts would be root's, and {user}'s jobs could not use them: set FORGE_JOB_UID and"
        f" FORGE_JOB_GID to what `id {user}` says on the nodes"
    )
    return [warning]


def _find_warnings(settings: ClusterSettings, picture: Picture) -> list[str]:
    nodes = picture.view.nodes
    found = [f"node {node.name} takes no jobs: {node.why_not}" for node in nodes if not node.accepts]
    nameless = sorted({gpu.name for node in nodes for gpu in node.gpus if gpu.series is None})
    if nameless:
        found.append(
            f"nobody knows the series of {', '.join(nameless[:_NAMED])}: name it in FORGE_SLURM_GRES, as in"
            " h200=gpu:h200 (h200=gpu where the cluster tells no type), or on the administration page"
        )
    missing = sorted(set(settings.gres) - {gpu.series for node in nodes for gpu in node.gpus})
    if missing:
        found.append(f"FORGE_SLURM_GRES names {', '.join(missing)}, and no node of the partition has such GPUs")
    return found if nodes else ["the partition has no nodes"]
