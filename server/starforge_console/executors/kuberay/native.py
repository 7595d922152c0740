"""What the API server says, in types of our own."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from starforge.contract.ids import AttemptId
from starforge_console.executors.kuberay.settings import Toleration


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeRayJob:
    """A RayJob of ours. Words are KubeRay's and Ray's own; empty where they say none.

    Attributes:
        deployment: KubeRay's word for how it is.
        status: Ray's word for the job.
        reason: KubeRay's word for why it failed.
        cluster: The name of its RayCluster.
        workdir: The attempt's directory, as its entrypoint names it.
        began_at: When Ray started the job, by the head's clock in Unix seconds.

    """

    name: str
    uid: str
    attempt: AttemptId
    deployment: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    cluster: str = ""
    workdir: str = ""
    began_at: float | None = None
    ended_at: float | None = None
    is_deleting: bool = False


@dataclass(frozen=True, slots=True)
class Amounts:
    """What a pod asks for, or a node has to give."""

    gpus: int = 0
    cpus: float = 0.0
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NativePod:
    """A pod; of a stranger's only who it is, where it is and what it asks for.

    Attributes:
        node: Empty as long as it is not scheduled.
        part: head, worker or submitter; empty for a stranger's.
        unscheduled: The scheduler's words for why it has no node.
        waits: The kubelet's word for what a container of it waits for, and its words for that.
        restarts: How often its first container was started again.
        running_since: When the present run of its first container began, by the node's clock in Unix seconds.
        is_out_of_memory: A container of it was killed for memory.
        is_of_node: It belongs to its node, as those of a DaemonSet do: it is there as long as the node is.

    """

    name: str
    uid: str
    phase: str
    asks: Amounts = Amounts()
    namespace: str = ""
    node: str = ""
    install: str = ""
    attempt: AttemptId | None = None
    pool: str = ""
    part: str = ""
    created_at: float = 0.0
    is_deleting: bool = False
    unscheduled: str = ""
    waits: tuple[str, str] = ("", "")
    restarts: int = 0
    running_since: float | None = None
    is_out_of_memory: bool = False
    is_of_node: bool = False

    @property
    def is_living(self) -> bool:
        """Whether its node, once it has one, holds what it asks for."""
        return self.phase not in {"Succeeded", "Failed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """What keeps pods from a node."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeNode:
    """A node and what of it pods can be given.

    Attributes:
        unready: Why it is not ready, in the cluster's words; empty where it is.
        is_closed: It was cordoned.

    """

    name: str
    has: Amounts
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unready: str = ""
    is_closed: bool = False


def is_tolerated(taint: Taint, tolerations: tuple[Toleration, ...]) -> bool:
    """Whether pods with these go to a node with that taint all the same; one that only advises does not count."""
    return taint.effect == "PreferNoSchedule" or any(_matches(one, taint) for one in tolerations)


def _matches(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in {"", taint.effect}:
        return False
    if toleration.operator == "Exists":
        return toleration.key in {"", taint.key}
    return (toleration.key, toleration.value) == (taint.key, taint.value)
