"""Small documents as the API server gives them, and an executor's settings."""

from pathlib import Path
from typing import Any

from core.tests.containers.builders import make_request, new_attempt
from starforge.contract.ids import AttemptId
from starforge.contract.launch import LaunchRequest, PoolRequest, Secret
from starforge_console.executors.kuberay.decode import Document, read_node, read_pod, read_rayjob
from starforge_console.executors.kuberay.native import NativeNode, NativePod, NativeRayJob
from starforge_console.executors.kuberay.settings import GPU_RESOURCE, Claim, KubeSettings

ATTEMPT = new_attempt()
OTHER = new_attempt()
AT = 1_000.0
ONE_NODE = (PoolRequest(name="main", nodes=1, gpus_per_node=2, cpus=3.5, memory_bytes=8 * 10**9),)


def make_settings(root: Path, **changes: Any) -> KubeSettings:
    given: dict[str, Any] = {
        "fleet": "cluster",
        "install": "lab",
        "namespace": "training",
        "state_dir": root / "state",
        "claims": {str(root): Claim(name="shared")},
        **changes,
    }
    return KubeSettings(**given)


def request_of(root: Path, **changes: Any) -> LaunchRequest:
    given: dict[str, Any] = {"pools": ONE_NODE, "env": {"A": "b c"}, "secrets": {"TOKEN": Secret("s3cret")}, **changes}
    return make_request(root, **given)


def own_labels(attempt: AttemptId = ATTEMPT, **more: str) -> dict[str, str]:
    named = {f"forge.{name}": value for name, value in more.items()}
    return {"forge.install": "lab", "forge.fleet": "cluster", "forge.attempt": attempt, **named}


def job(**status: Any) -> NativeRayJob:
    """A RayJob of ATTEMPT with that status."""
    found = read_rayjob(
        {
            "metadata": {"name": f"starforge-{ATTEMPT}", "uid": "job-1", "labels": own_labels()},
            "spec": {"entrypoint": "bash /shared/attempt/.kuberay/entry.sh"},
            "status": status,
        }
    )
    assert found is not None
    return found


def pod_document(name: str, *, node: str = "n1", gpus: int = 0, phase: str = "Running", **more: Any) -> Document:
    """A stranger's pod; `labels`, `owner` and `container` (its status) may be given."""
    container: dict[str, Any] = {"name": "main", "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}}}
    if gpus:
        container["resources"]["limits"][GPU_RESOURCE] = str(gpus)
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "namespace": "training",
            "creationTimestamp": more.get("created", "2026-03-02T10:00:00Z"),
            "labels": more.get("labels", {}),
            "ownerReferences": [{"kind": more["owner"]}] if "owner" in more else [],
            **({"deletionTimestamp": "2026-03-02T11:00:00Z"} if more.get("deleting") else {}),
        },
        "spec": {"containers": [container], **({"nodeName": node} if node else {})},
        "status": {
            "phase": phase,
            "conditions": more.get("conditions", []),
            "containerStatuses": [more["container"]] if "container" in more else [],
        },
    }


def pod(name: str = "head", **more: Any) -> NativePod:
    """A pod of ATTEMPT: its head, unless `part` says otherwise."""
    part = more.pop("part", "head")
    attempt = more.pop("attempt", ATTEMPT)
    labels = own_labels(attempt, part=part, pool="main")
    return read_pod(pod_document(name, labels=labels, **more), GPU_RESOURCE)


def node(name: str = "n1", *, gpus: int = 4, labels: dict[str, str] | None = None, **more: Any) -> NativeNode:
    """A node of 32 CPUs and 64 GiB."""
    ready = more.get("ready", {"type": "Ready", "status": "True"})
    allocatable = {"cpu": "32", "memory": "64Gi", **({GPU_RESOURCE: str(gpus)} if gpus else {})}
    return read_node(
        {
            "metadata": {"name": name, "labels": labels or {}},
            "spec": {"taints": more.get("taints", []), "unschedulable": more.get("cordoned", False)},
            "status": {"allocatable": allocatable, "conditions": [ready]},
        },
        GPU_RESOURCE,
    )
