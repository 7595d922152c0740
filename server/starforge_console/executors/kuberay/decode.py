"""What documents of the API server mean: pure. Anything may be left out of one, and then says nothing."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from starforge.containers import labels as l
from starforge.contract.ids import AttemptId, parse_attempt_id
from starforge.errors import SpecError
from starforge_console.executors.kuberay.manifest import PART, POOL, find_workdir
from starforge_console.executors.kuberay.native import Amounts, NativeNode, NativePod, NativeRayJob, Taint

Document = Mapping[str, Any]

_FACTORS: Final = {
    "": Decimal(1),
    "n": Decimal(10) ** -9,
    "u": Decimal(10) ** -6,
    "m": Decimal(10) ** -3,
    **{letter: Decimal(1000) ** power for power, letter in enumerate("kMGTPE", 1)},
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", 1)},
}
_QUANTITY: Final = re.compile(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([numkMGTPE]|[KMGTPE]i)?")
MOST_GPUS: Final = 1024
"""More than any node has; whoever writes a pod may ask for any number, and GPUs are counted one by one."""
_OUT_OF_MEMORY: Final = "OOMKilled"
_OF_NODE: Final = frozenset({"DaemonSet", "Node"})


def parse_quantity(value: object) -> float:
    """A quantity as a number; 0 for what is none."""
    match = _QUANTITY.fullmatch(str(value))
    if match is None:
        return 0.0
    try:
        number = float(Decimal(match[1]) * _FACTORS[match[2] or ""])
    except ArithmeticError:  # no number, or one that nothing can hold
        return 0.0
    return number if math.isfinite(number) else 0.0


def parse_time(value: object) -> float | None:
    """A moment in Unix seconds."""
    try:
        return datetime.fromisoformat(str(value)).timestamp() if value else None
    except ValueError:
        return None


def read_rayjob(document: Document) -> NativeRayJob | None:
    """A RayJob; None for one that names no attempt."""
    metadata, status = _get(document, "metadata"), _get(document, "status")
    attempt = _find_attempt(metadata)
    if attempt is None:
        return None
    ray = _get(status, "rayJobInfo")
    return NativeRayJob(
        name=_text(metadata, "name"),
        uid=_text(metadata, "uid"),
        attempt=attempt,
        deployment=_text(status, "jobDeploymentStatus"),
        status=_text(status, "jobStatus"),
        reason=_text(status, "reason"),
        message=_text(status, "message"),
        cluster=_text(status, "rayClusterName"),
        workdir=find_workdir(_text(_get(document, "spec"), "entrypoint")),
        began_at=parse_time(ray.get("startTime")),
        ended_at=parse_time(status.get("endTime")),
        is_deleting=bool(metadata.get("deletionTimestamp")),
    )


def read_pod(document: Document, gpu_resource: str) -> NativePod:
    """A pod."""
    metadata, spec, status = _get(document, "metadata"), _get(document, "spec"), _get(document, "status")
    containers = [*_list(status, "initContainerStatuses"), *_list(status, "containerStatuses")]
    first = next(iter(_list(status, "containerStatuses")), {})
    own = _get(metadata, "labels")
    return NativePod(
        name=_text(metadata, "name"),
        uid=_text(metadata, "uid"),
        phase=_text(status, "phase"),
        asks=_add_up(spec, gpu_resource),
        namespace=_text(metadata, "namespace"),
        node=_text(spec, "nodeName"),
        install=_text(own, l.INSTALL),
        attempt=_find_attempt(metadata),
        pool=_text(own, POOL),
        part=_text(own, PART),
        created_at=parse_time(metadata.get("creationTimestamp")) or 0.0,
        is_deleting=bool(metadata.get("deletionTimestamp")),
        unscheduled=_find_unscheduled(status),
        waits=next((found for one in containers if (found := _find_waiting(one))[0]), ("", "")),
        restarts=int(parse_quantity(first.get("restartCount", 0))),
        running_since=parse_time(_get(_get(first, "state"), "running").get("startedAt")),
        is_out_of_memory=any(_was_killed_for_memory(one) for one in containers),
        is_of_node=any(_text(one, "kind") in _OF_NODE for one in _list(metadata, "ownerReferences")),
    )


def read_node(document: Document, gpu_resource: str) -> NativeNode:
    """A node."""
    metadata, spec, status = _get(document, "metadata"), _get(document, "spec"), _get(document, "status")
    return NativeNode(
        name=_text(metadata, "name"),
        has=_read_amounts(_get(status, "allocatable"), gpu_resource),
        labels={str(name): str(value) for name, value in _get(metadata, "labels").items()},
        taints=tuple(
            Taint(key=_text(one, "key"), value=_text(one, "value"), effect=_text(one, "effect"))
            for one in _list(spec, "taints")
        ),
        unready=_find_unready(status),
        is_closed=bool(spec.get("unschedulable")),
    )


def _find_attempt(metadata: Document) -> AttemptId | None:
    try:
        return parse_attempt_id(_text(_get(metadata, "labels"), l.ATTEMPT))
    except SpecError:
        return None


def _find_unscheduled(status: Document) -> str:
    for condition in _list(status, "conditions"):
        if _text(condition, "type") == "PodScheduled" and _text(condition, "status") == "False":
            return _text(condition, "message") or _text(condition, "reason")
    return ""


def _find_waiting(container: Document) -> tuple[str, str]:
    waiting = _get(_get(container, "state"), "waiting")
    return _text(waiting, "reason"), _text(waiting, "message")


def _was_killed_for_memory(container: Document) -> bool:
    return any(
        _text(_get(_get(container, state), "terminated"), "reason") == _OUT_OF_MEMORY
        for state in ("state", "lastState")
    )


def _find_unready(status: Document) -> str:
    for condition in _list(status, "conditions"):
        if _text(condition, "type") == "Ready" and _text(condition, "status") != "True":
            return _text(condition, "message") or _text(condition, "reason") or "not ready"
    return ""


def _add_up(spec: Document, gpu_resource: str) -> Amounts:
    """What the scheduler reckons with: all containers at once, or the largest of those that run before them."""
    last = [*_list(spec, "containers"), *(one for one in _list(spec, "initContainers") if _stays(one))]
    before = [_ask(one, gpu_resource) for one in _list(spec, "initContainers") if not _stays(one)]
    at_once = [_ask(one, gpu_resource) for one in last]
    over = _read_amounts(_get(spec, "overhead"), gpu_resource)
    return Amounts(
        gpus=max([sum(one.gpus for one in at_once), *(one.gpus for one in before)]) + over.gpus,
        cpus=max([sum(one.cpus for one in at_once), *(one.cpus for one in before)]) + over.cpus,
        memory_bytes=max([sum(one.memory_bytes for one in at_once), *(one.memory_bytes for one in before)])
        + over.memory_bytes,
    )


def _ask(container: Document, gpu_resource: str) -> Amounts:
    resources = _get(container, "resources")
    # Where only a limit is said, Kubernetes takes it for the request too.
    return _read_amounts({**_get(resources, "limits"), **_get(resources, "requests")}, gpu_resource)


def _stays(container: Document) -> bool:
    return _text(container, "restartPolicy") == "Always"


def _read_amounts(document: Document, gpu_resource: str) -> Amounts:
    return Amounts(
        gpus=min(MOST_GPUS, int(parse_quantity(document.get(gpu_resource, 0)))),
        cpus=parse_quantity(document.get("cpu", 0)),
        memory_bytes=int(parse_quantity(document.get("memory", 0))),
    )


def _get(document: Document, name: str) -> Document:
    found = document.get(name)
    return found if isinstance(found, Mapping) else {}


def _list(document: Document, name: str) -> Sequence[Document]:
    found: Iterable[Any] = document.get(name) or ()
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def _text(document: Document, name: str) -> str:
    found = document.get(name)
    return found if isinstance(found, str) else ""
