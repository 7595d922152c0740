"""Whether a cluster can be used as it is set: what an administrator asks before jobs are sent to it."""

import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from starforge.contract.executor import FleetView
from starforge.errors import BackendUnreachable
from starforge_console.executors.kuberay.api import Document, KubeApi
from starforge_console.executors.kuberay.cluster import KubeCluster
from starforge_console.executors.kuberay.records import KubeLaunches
from starforge_console.executors.kuberay.replies import KubeRefused
from starforge_console.executors.kuberay.settings import KubeSettings

_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_SHARED: Final = "ReadWriteMany"
_NAMED: Final = 8


@dataclass(frozen=True, slots=True)
class Right:
    """Something that the console's account must be allowed. `is_cluster_wide`: in every namespace, or in none."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    is_cluster_wide: bool = False
    without: str = ""
    """What is lost without it; empty where nothing works then."""


RIGHTS: Final = (
    Right("ray.io", "rayjobs", ("get", "list", "watch", "create", "patch", "delete")),
    Right("ray.io", "rayclusters", ("delete",)),
    Right("", "pods", ("list", "watch")),
    Right("", "secrets", ("create", "patch", "delete")),
    Right("", "nodes", ("list",), is_cluster_wide=True),
    Right(
        "",
        "pods",
        ("list",),
        is_cluster_wide=True,
        without="what pods of other namespaces hold counts as free capacity",
    ),
    Right("", "events", ("list",), without="of an image that cannot be pulled less is told"),
    Right("", "persistentvolumeclaims", ("get",), without="the volume claims cannot be looked at here"),
)
"""The least with which everything works."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeReport:
    """What was found.

    Attributes:
        version: Of the API server.
        is_installed: Whether the namespace's RayJobs can be listed, which tells that KubeRay's resources are there.
        missing: Rights without which jobs cannot be run, each as `verb resource`.
        claims: By name, how each volume claim is; empty where it is not there.
        nodes: How many the fleet has; `accepting` of them take pods now.
        gpus: How many of each series; those of unknown products stand under an empty name.
        warnings: What lets jobs wait or fail.

    """

    version: str
    namespace: str
    is_installed: bool
    missing: tuple[str, ...]
    claims: Mapping[str, str]
    nodes: int
    accepting: int
    gpus: Mapping[str, int]
    warnings: tuple[str, ...]


async def check_kube(settings: KubeSettings, series_of: Callable[[str], str | None]) -> KubeReport:
    """Ask the cluster as the executor does; nothing is made or kept. Raises BackendUnreachable where it is away."""
    with tempfile.TemporaryDirectory() as folder:
        alone = replace(settings, state_dir=Path(folder))
        cluster = KubeCluster(alone, KubeLaunches(alone.state_dir), series_of)
        try:
            return await _check(settings, cluster)
        finally:
            await cluster.api.close()


async def _check(settings: KubeSettings, cluster: KubeCluster) -> KubeReport:
    version = await cluster.api.find("/version") or {}
    missing, lost = await _find_rights(settings, cluster.api)
    is_installed, warnings = await _look_for_kuberay(cluster)
    claims, about_claims = await _look_for_claims(settings, cluster.api)
    view = None
    try:
        view = (await cluster.load()).view
    except BackendUnreachable as error:
        warnings.append(f"the nodes' capacity is not known: {error.what}")
    nodes = view.nodes if view is not None else ()
    gpus = Counter(gpu.series or "" for node in nodes for gpu in node.gpus)
    return KubeReport(
        version=str(version.get("gitVersion") or "unknown"),
        namespace=settings.namespace,
        is_installed=is_installed,
        missing=tuple(missing),
        claims=claims,
        nodes=len(nodes),
        accepting=sum(node.accepts for node in nodes),
        gpus=dict(sorted(gpus.items())),
        warnings=(*warnings, *about_claims, *lost, *(_find_warnings(settings, view) if view is not None else ())),
    )


async def _find_rights(settings: KubeSettings, api: KubeApi) -> tuple[list[str], list[str]]:
    """Rights that are missing, and what is lost with those that can be done without."""
    missing, lost = [], []
    for right in RIGHTS:
        for verb in right.verbs:
            if await _is_allowed(settings, api, right, verb):
                continue
            where = "the cluster" if right.is_cluster_wide else f"namespace {settings.namespace}"
            if right.without:
                lost.append(f"the account may not {verb} {right.resource} in {where}: {right.without}")
            else:
                missing.append(f"{verb} {right.resource}" + (f".{right.group}" if right.group else ""))
    return missing, lost


async def _is_allowed(settings: KubeSettings, api: KubeApi, right: Right, verb: str) -> bool:
    asked = {"verb": verb, "group": right.group, "resource": right.resource}
    if not right.is_cluster_wide:
        asked["namespace"] = settings.namespace
    review: Document = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    try:
        answer = await api.create(_REVIEWS, review)
    except KubeRefused as refused:
        raise BackendUnreachable(f"the cluster does not say what the account may do: {refused.words}") from refused
    return bool((answer.get("status") or {}).get("allowed"))


async def _look_for_kuberay(cluster: KubeCluster) -> tuple[bool, list[str]]:
    try:
        if await cluster.api.find(cluster.rayjobs) is not None:
            return True, []
    except BackendUnreachable as error:
        return False, [f"whether KubeRay is installed is not known: {error.what}"]
    return False, ["the cluster knows no RayJobs of ray.io/v1: install the KubeRay operator with its resources"]


async def _look_for_claims(settings: KubeSettings, api: KubeApi) -> tuple[dict[str, str], list[str]]:
    found: dict[str, str] = {}
    warnings = []
    for claim in sorted({claim.name for claim in settings.claims.values()}):
        try:
            document = await api.find(f"/api/v1/namespaces/{settings.namespace}/persistentvolumeclaims/{claim}")
        except BackendUnreachable:
            continue  # that the right is missing is said already
        if document is None:
            found[claim] = ""
            warnings.append(f"there is no volume claim {claim} in namespace {settings.namespace}")
            continue
        found[claim] = str((document.get("status") or {}).get("phase") or "unknown")
        if _SHARED not in ((document.get("spec") or {}).get("accessModes") or ()):
            warnings.append(f"the volume claim {claim} is not {_SHARED}: pods on several nodes cannot share it")
    return found, warnings


def _find_warnings(settings: KubeSettings, view: FleetView) -> list[str]:
    found = [f"node {node.name} takes no pods: {node.why_not}" for node in view.nodes if not node.accepts]
    gpus = [gpu for node in view.nodes for gpu in node.gpus]
    nameless = sorted({gpu.name for gpu in gpus if gpu.series is None})
    if nameless:
        found.append(
            f"nobody knows the series of {', '.join(nameless[:_NAMED])}: name it under series in FORGE_KUBE_POD_FILE,"
            " or on the administration page"
        )
    absent = sorted(set(settings.series) - {gpu.series for gpu in gpus})
    if absent:
        found.append(f"FORGE_KUBE_POD_FILE names {', '.join(absent)}, and no node of the fleet has such GPUs")
    return found if view.nodes else [*found, "the fleet has no nodes"]
