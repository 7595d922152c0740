"""The scheduler: a node for each pod, by selectors, taints and what is left of its resources."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

from e2e.support.kube.inside import Inside
from e2e.support.kube.kinds import NODES, PODS
from e2e.support.kube.status import Document, Json
from e2e.support.kube.store import now

_QUANTITY: Final = re.compile(r"([0-9.]+)(m|k|Ki|M|Mi|G|Gi|T|Ti)?")
_UNITS: Final = {
    None: 1.0,
    "m": 1e-3,
    "k": 1e3,
    "Ki": 2.0**10,
    "M": 1e6,
    "Mi": 2.0**20,
    "G": 1e9,
    "Gi": 2.0**30,
    "T": 1e12,
    "Ti": 2.0**40,
}
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
ENDED: Final = ("Succeeded", "Failed")


def schedule(inside: Inside) -> None:
    """Give each pod that waits a node, or say why it has none."""
    pods = inside.list(PODS)
    nodes = inside.list(NODES)
    placed = [pod for pod in pods if pod["spec"].get("nodeName") and pod["status"].get("phase") not in ENDED]
    for pod in pods:
        if pod["spec"].get("nodeName") or "deletionTimestamp" in pod["metadata"] or pod["spec"].get("schedulingGates"):
            continue
        reasons = {node["metadata"]["name"]: _find_reason(pod, node, placed) for node in nodes}
        found = next((name for name, reason in reasons.items() if not reason), None)
        if found is None:
            _say_unschedulable(inside, pod, list(reasons.values()))
            continue
        bound = inside.merge(PODS, pod, {"spec": {"nodeName": found}})
        if bound is not None:
            condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": now()}
            inside.set_status(PODS, bound, {"conditions": [condition]})
            placed.append(bound)


def read_quantity(value: object) -> float:
    """A quantity as a number."""
    match = _QUANTITY.fullmatch(str(value))
    assert match is not None, value
    return float(match[1]) * _UNITS[match[2]]


def sum_requests(pod: Document) -> Counter[str]:
    """What a pod asks for."""
    asked: Counter[str] = Counter()
    for container in pod["spec"].get("containers") or ():
        resources = container.get("resources") or {}
        for name, value in {**(resources.get("limits") or {}), **(resources.get("requests") or {})}.items():
            asked[name] += read_quantity(value)  # type: ignore[assignment]  # a Counter of numbers
    return asked


def _find_reason(pod: Document, node: Document, placed: Iterable[Document]) -> str:
    """Why the node is none for the pod; empty where it is one."""
    here = [other for other in placed if other["spec"]["nodeName"] == node["metadata"]["name"]]
    return _find_selected_out(pod, node) or _find_kept_away(pod, node, here) or _find_missing(pod, node, here)


def _find_selected_out(pod: Document, node: Document) -> str:
    labels = node["metadata"].get("labels") or {}
    terms = _get_affinity(pod, "nodeAffinity").get("nodeSelectorTerms")
    is_named = (pod["spec"].get("nodeSelector") or {}).items() <= labels.items()
    if is_named and (not terms or any(_matches(term, labels) for term in terms)):
        return ""
    return "node(s) didn't match Pod's node affinity/selector"


def _find_kept_away(pod: Document, node: Document, here: Iterable[Document]) -> str:
    if node["spec"].get("unschedulable"):
        return "node(s) were unschedulable"
    for taint in node["spec"].get("taints") or ():
        if taint["effect"] != "PreferNoSchedule" and not _is_tolerated(pod, taint):
            return f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"
    if not any(one["type"] == "Ready" and one["status"] == "True" for one in node["status"]["conditions"]):
        return "node(s) had untolerated taint {node.kubernetes.io/not-ready: }"
    for term in _get_affinity(pod, "podAntiAffinity"):
        wanted = term["labelSelector"]["matchLabels"].items()
        if any(wanted <= (other["metadata"].get("labels") or {}).items() for other in here):
            return "node(s) didn't match pod anti-affinity rules"
    return ""


def _find_missing(pod: Document, node: Document, here: Iterable[Document]) -> str:
    used: Counter[str] = Counter()
    for other in here:
        used.update(sum_requests(other))
    for name, asked in sum_requests(pod).items():
        if asked > read_quantity(node["status"]["allocatable"].get(name, "0")) - used[name] + 1e-9:
            return f"Insufficient {name}"
    return ""


def _get_affinity(pod: Document, kind: str) -> Json:
    affinity = pod["spec"].get("affinity") or {}
    return (affinity.get(kind) or {}).get(_REQUIRED) or {}


def _matches(term: Document, labels: dict[str, str]) -> bool:
    """Whether a node with these labels is one of a term; `In` and `Exists` are the operators that are known."""
    return all(
        one["key"] in labels and (one["operator"] == "Exists" or labels[one["key"]] in one["values"])
        for one in term["matchExpressions"]
    )


def _is_tolerated(pod: Document, taint: Document) -> bool:
    for one in pod["spec"].get("tolerations") or ():
        if one.get("effect") not in (None, "", taint["effect"]) or one.get("key") not in (None, "", taint["key"]):
            continue
        if one.get("operator") == "Exists" or one.get("value", "") == taint.get("value", ""):
            return True
    return False


def _say_unschedulable(inside: Inside, pod: Document, reasons: list[str]) -> None:
    counted = ", ".join(f"{count} {reason}" for reason, count in sorted(Counter(reasons).items()))
    message = f"0/{len(reasons)} nodes are available: {counted}."
    known = (pod["status"].get("conditions") or [{}])[0]
    if known.get("message") == message:
        return
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
        "lastTransitionTime": now(),
    }
    inside.set_status(PODS, pod, {"phase": "Pending", "conditions": [condition]})
