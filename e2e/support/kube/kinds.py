"""The kinds of objects that the API server knows, and how their addresses are read."""

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from e2e.support.kube.rayjob import CLUSTER_SPEC, RAYJOB
from e2e.support.kube.schema import ANY, STRING, Schema, obj
from e2e.support.kube.status import Refusal


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind. `schema` is what documents are judged by; ANY judges nothing."""

    group: str
    plural: str
    kind: str
    schema: Schema = field(default=ANY, compare=False)
    has_status: bool = False
    is_namespaced: bool = True

    @property
    def version(self) -> str:
        """As `apiVersion` says it."""
        return f"{self.group}/v1" if self.group else "v1"


RAYJOBS: Final = Kind("ray.io", "rayjobs", "RayJob", RAYJOB, has_status=True)
RAYCLUSTERS: Final = Kind(
    "ray.io",
    "rayclusters",
    "RayCluster",
    obj(apiVersion=STRING, kind=STRING, metadata=ANY, spec=CLUSTER_SPEC, status=ANY),
    has_status=True,
)
PODS: Final = Kind("", "pods", "Pod", has_status=True)
NODES: Final = Kind("", "nodes", "Node", has_status=True, is_namespaced=False)
NAMESPACES: Final = Kind("", "namespaces", "Namespace", has_status=True, is_namespaced=False)
SECRETS: Final = Kind("", "secrets", "Secret")
SERVICES: Final = Kind("", "services", "Service", has_status=True)
EVENTS: Final = Kind("", "events", "Event")
CLAIMS: Final = Kind("", "persistentvolumeclaims", "PersistentVolumeClaim", has_status=True)
QUEUES: Final = Kind("kueue.x-k8s.io", "localqueues", "LocalQueue", has_status=True)
KINDS: Final = (RAYJOBS, RAYCLUSTERS, PODS, NODES, NAMESPACES, SECRETS, SERVICES, EVENTS, CLAIMS, QUEUES)
_BY_NAME: Final = {(kind.group, kind.plural): kind for kind in KINDS}


@dataclass(frozen=True, slots=True)
class Address:
    """What a path names: a kind, all of a namespace (None: everywhere) or one object, and a part of it."""

    kind: Kind
    namespace: str | None
    name: str = ""
    part: str = ""


def parse_path(path: str) -> Address:
    """What the path names. Raises Refusal for one that names nothing."""
    words = [unquote(word) for word in path.strip("/").split("/")]
    if words[:2] == ["api", "v1"]:
        group, rest = "", words[2:]
    elif len(words) > 3 and words[0] == "apis" and words[2] == "v1":
        group, rest = words[1], words[3:]
    else:
        raise Refusal(404, "404 page not found")
    namespace = None
    if len(rest) > 2 and rest[0] == "namespaces":
        namespace, rest = rest[1], rest[2:]
    kind = _BY_NAME.get((group, rest[0])) if rest else None
    if kind is None or (namespace is None and kind.is_namespaced and len(rest) > 1):
        raise Refusal(404, "404 page not found")
    name, part, *more = (*rest[1:], "", "")
    if any(more):
        raise Refusal(404, "404 page not found")
    return Address(kind, namespace if kind.is_namespaced else None, name, part)
