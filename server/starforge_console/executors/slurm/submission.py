"""From a LaunchRequest to what is submitted: pure, so that a test compares the whole and people can be shown it."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from starforge.containers.labels import name_container
from starforge.contract.ids import AttemptId, job_of, parse_attempt_id
from starforge.contract.launch import LaunchRequest, PoolRequest
from starforge.errors import LaunchRefused, SpecError
from starforge.said.sentence import say
from starforge_console.executors.slurm.decode.family import Document
from starforge_console.executors.slurm.script import (
    KILL_AFTER_GRACE_S,
    LOG_FILE,
    OWN_FOLDER,
    build_script,
    plan_script,
)
from starforge_console.executors.slurm.settings import ClusterSettings

LIMIT_SLACK_S: Final = 120.0
"""Slurm's own limit lies so far behind the runner's and its grace: it is the last of the nets."""
MOST_WARNING_S: Final = 65_000
_MINUTE_S: Final = 60.0
_MIB: Final = 1024**2
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """What of the cluster a submission depends on.

    Attributes:
        gres: What each series is called there.
        max_time_s: The partition's limit; None for none.

    """

    gres: Mapping[str, str]
    max_time_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What is sent, in terms that each family of versions writes in its own way. No secret is in it."""

    components: tuple[Document, ...]
    script: str

    def describe(self) -> str:
        """The whole as people read it."""
        parts = json.dumps(list(self.components), indent=2, sort_keys=True, ensure_ascii=False)
        return f"{parts}\n\n{self.script}"


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose job it is, as its comment says."""

    install: str
    attempt: AttemptId


def build_submission(request: LaunchRequest, settings: ClusterSettings, cluster: ClusterFacts) -> Submission:
    """One component a pool, the first leading. Every pool must say its CPUs and memory. Raises LaunchRefused."""
    cpus = [_count_cpus(pool) for pool in request.pools]
    plan = plan_script(request, settings.runtime, cpus)
    components = tuple(_build_component(request, pool, settings, cluster) for pool in request.pools)
    return Submission(components=components, script=build_script(plan))


def name_job(attempt: AttemptId) -> str:
    """The one name that an attempt's job can have."""
    return name_container(attempt)


def find_attempt(name: str) -> AttemptId | None:
    """Whose job has that name; None for one that none of ours can have."""
    try:
        attempt = parse_attempt_id(name.removeprefix(name_job(AttemptId(""))))
    except SpecError:
        return None
    return attempt if name == name_job(attempt) else None


def write_owner(install: str, attempt: AttemptId) -> str:
    """The comment that says whose job it is: an attempt whose submission's reply was lost is found by it."""
    return f"starforge install={install} job={job_of(attempt)} attempt={attempt}"


def find_owner(comment: str) -> Owner | None:
    """Whose job has that comment; None for a stranger's."""
    words = dict(word.partition("=")[::2] for word in comment.split())
    if not comment.startswith("starforge ") or "install" not in words:
        return None
    try:
        return Owner(words["install"], parse_attempt_id(words.get("attempt", "")))
    except SpecError:
        return None


def _build_component(
    request: LaunchRequest, pool: PoolRequest, settings: ClusterSettings, cluster: ClusterFacts
) -> Document:
    component: dict[str, Any] = {
        "name": name_job(request.attempt),
        "comment": write_owner(request.install, request.attempt),
        "current_working_directory": request.workdir,
        "standard_output": f"{request.workdir}/{OWN_FOLDER}/{LOG_FILE}",
        "open_mode": "append",
        "environment": _build_environment(request),
        "nodes": pool.nodes,
        "tasks": pool.nodes,
        "tasks_per_node": 1,
        "cpus_per_task": _count_cpus(pool),
        "memory_mb": None if pool.memory_bytes is None else math.ceil(pool.memory_bytes / _MIB),
        "gres": _name_gres(pool, cluster.gres),
        "time_limit_min": _decide_limit(request, cluster.max_time_s),
        "warning_s": min(MOST_WARNING_S, math.ceil(request.grace_s) + KILL_AFTER_GRACE_S),
    }
    optional = {
        "partition": settings.partition,
        "account": settings.account,
        "qos": settings.qos,
        "constraints": settings.constraint,
    }
    return {**component, **{name: value for name, value in optional.items() if value}}


def _build_environment(request: LaunchRequest) -> dict[str, str]:
    own = {
        "FORGE_CAPSULE_DIGEST": request.capsule_digest,
        "FORGE_INGEST_URL": request.ingest_url,
        "FORGE_ATTEMPT": request.attempt,
    }
    return {"PATH": _PATH, "HOME": request.workdir, "LANG": "C.UTF-8", **own, **request.env}


def _name_gres(pool: PoolRequest, known: Mapping[str, str]) -> str:
    if not pool.gpus_per_node:
        return ""
    if pool.series is None:
        return f"gpu:{pool.gpus_per_node}"
    gres = known.get(pool.series)
    if gres is None:
        raise LaunchRefused(
            say("slurm.no_series", series=pool.series),
            why=say("slurm.no_series_why"),
            next_step=say("slurm.no_series_next"),
        )
    return f"{gres}:{pool.gpus_per_node}"


def _decide_limit(request: LaunchRequest, max_time_s: float | None) -> int | None:
    """Minutes: behind the job's own limit, and never beyond the partition's; None for none."""
    asked = request.max_runtime_s
    own = None if asked is None else asked + request.grace_s + KILL_AFTER_GRACE_S + LIMIT_SLACK_S
    limits = [limit for limit in (own, max_time_s) if limit is not None]
    if not limits:
        return None
    shortest = min(limits)
    return int(shortest // _MINUTE_S) if shortest == max_time_s else math.ceil(shortest / _MINUTE_S)


def _count_cpus(pool: PoolRequest) -> int:
    return max(1, math.ceil(pool.cpus or 0))
