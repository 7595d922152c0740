"""What the executor must know of a Kubernetes cluster, and as whom it speaks to it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

GPU_RESOURCE: Final = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """A taint that pods put up with; empty fields match any, as Kubernetes has it."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A volume claim of the namespace, and the folder in it that stands for one of the console's."""

    name: str
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesRules:
    """How pods find the nodes of a series."""

    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeSettings:
    """One namespace of one cluster.

    Attributes:
        state_dir: Where this executor keeps what must outlive it; the console's own disk.
        claims: By folder of the console's, which pods see under the same path: the storage root is one of them.
        kubeconfig: Where the cluster and the credentials stand; None in a pod of the cluster itself.
        context: Of the kubeconfig; empty for its current one.
        node_selector: What every node of the fleet must have.
        series: How pods find a series; where none is named, nodes tell the product in a label.
        queue: Of Kueue; empty where there is none.
        look_s: How often the cluster is looked at all the same where it cannot be watched.

    """

    fleet: str
    install: str
    namespace: str
    state_dir: Path
    claims: Mapping[str, Claim]
    kubeconfig: Path | None = None
    context: str = ""
    image_pull_secrets: tuple[str, ...] = ()
    service_account: str = ""
    queue: str = ""
    gpu_resource: str = GPU_RESOURCE
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    series: Mapping[str, SeriesRules] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    request_timeout_s: float = 30.0
    look_s: float = 15.0
