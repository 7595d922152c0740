"""What a cluster offers, from what Kubernetes says of its nodes and pods: pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from starforge.contract.executor import FleetView, GpuState, GpuView, NodeView
from starforge.contract.ids import AttemptId
from starforge.contract.launch import PoolRequest
from starforge.said.sentence import say
from starforge_console.executors.kuberay.native import Amounts, NativeNode, NativePod, is_tolerated
from starforge_console.executors.kuberay.series import PRODUCT, Naming
from starforge_console.executors.kuberay.settings import KubeSettings, Toleration


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What was listed at one moment. `missing` is why not all pods could be; empty where they were."""

    nodes: Sequence[NativeNode]
    pods: Sequence[NativePod]
    missing: str = ""


def build_view(listing: Listing, own: Collection[str], settings: KubeSettings, naming: Naming) -> FleetView:
    """The fleet's nodes; `own` are the uids of pods of ours, and every other one is a stranger's."""
    living = [pod for pod in listing.pods if pod.is_living and pod.node]
    numbers = number_gpus([pod for pod in living if pod.uid in own])
    views = []
    for node in list_own_nodes(listing.nodes, settings):
        here = [pod for pod in living if pod.node == node.name]
        ours = [pod for pod in here if pod.uid in own]
        views.append(_view_node(node, ours, [pod for pod in here if pod.uid not in own], settings, naming, numbers))
    return FleetView(
        fleet=settings.fleet,
        nodes=tuple(sorted(views, key=lambda view: view.name)),
        complete=not listing.missing,
        why_not=listing.missing,
    )


def list_own_nodes(nodes: Sequence[NativeNode], settings: KubeSettings) -> list[NativeNode]:
    """Those that the fleet may use."""
    return [node for node in nodes if settings.node_selector.items() <= node.labels.items()]


def number_gpus(pods: Sequence[NativePod]) -> Mapping[str, tuple[int, ...]]:
    """A number among its node's for each GPU of these pods, by the pod's uid: the cluster itself tells none."""
    next_free: dict[str, int] = {}
    found = {}
    for pod in sorted(pods, key=lambda one: (one.created_at, one.name)):
        if pod.node and pod.is_living:
            first = next_free.get(pod.node, 0)
            next_free[pod.node] = first + pod.asks.gpus
            found[pod.uid] = tuple(range(first, first + pod.asks.gpus))
    return found


def name_gpus(pods: Sequence[NativePod], numbers: Mapping[str, tuple[int, ...]]) -> tuple[str, ...]:
    """What stands for the UUIDs of the GPUs that these pods hold."""
    return tuple(_name_gpu(pod.node, index) for pod in pods for index in numbers.get(pod.uid, ()))


def measure_idle(node: NativeNode, pods: Sequence[NativePod]) -> Amounts:
    """What nobody has asked for on the node."""
    here = [pod.asks for pod in pods if pod.node == node.name and pod.is_living]
    return Amounts(
        gpus=node.has.gpus - sum(asks.gpus for asks in here),
        cpus=node.has.cpus - sum(asks.cpus for asks in here),
        memory_bytes=node.has.memory_bytes - sum(asks.memory_bytes for asks in here),
    )


def is_idle_enough(idle: Amounts, pool: PoolRequest) -> bool:
    """Whether that much is enough for a node of the pool; its GPUs are looked at elsewhere, with their series."""
    return idle.cpus >= (pool.cpus or 0) and idle.memory_bytes >= (pool.memory_bytes or 0)


def explain_refusal(node: NativeNode, settings: KubeSettings, naming: Naming) -> str:
    """Why no pod of the fleet goes there; empty where one would."""
    if node.unready:
        return say("kuberay.node_unready", why=node.unready)
    if node.is_closed:
        return say("kuberay.node_closed")
    tolerated = _list_tolerations(node, settings, naming)
    for taint in node.taints:
        if not is_tolerated(taint, tolerated):
            words = f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
            return say("kuberay.node_tainted", taint=words)
    return ""


def _list_tolerations(node: NativeNode, settings: KubeSettings, naming: Naming) -> tuple[Toleration, ...]:
    rules = settings.series.get(naming.find_series(node) or "")
    own = (Toleration(key=settings.gpu_resource, operator="Exists"),) if node.has.gpus else ()
    return (*settings.tolerations, *own, *(rules.tolerations if rules is not None else ()))


def _view_node(  # noqa: PLR0913, PLR0917 - all that is known of one node
    node: NativeNode,
    ours: Sequence[NativePod],
    others: Sequence[NativePod],
    settings: KubeSettings,
    naming: Naming,
    numbers: Mapping[str, tuple[int, ...]],
) -> NodeView:
    why_not = explain_refusal(node, settings, naming)
    # What comes with the node is never anybody's to have; other strangers may leave, and are looked at before a launch.
    fixed = [pod.asks for pod in others if pod.is_of_node]
    return NodeView(
        name=node.name,
        gpus=_view_gpus(node, ours, sum(pod.asks.gpus for pod in others), naming, numbers),
        cpus=max(0.0, node.has.cpus - sum(asks.cpus for asks in fixed)),
        memory_bytes=max(0, node.has.memory_bytes - sum(asks.memory_bytes for asks in fixed)),
        held=_measure(ours),
        accepts=not why_not,
        why_not=why_not,
    )


def _measure(ours: Sequence[NativePod]) -> dict[AttemptId, tuple[float, int]]:
    """CPUs and bytes of memory that each attempt holds with these pods."""
    held: dict[AttemptId, tuple[float, int]] = {}
    for pod in ours:
        if pod.attempt is not None:
            cpus, memory_bytes = held.get(pod.attempt, (0.0, 0))
            held[pod.attempt] = (cpus + pod.asks.cpus, memory_bytes + pod.asks.memory_bytes)
    return held


def _view_gpus(
    node: NativeNode,
    ours: Sequence[NativePod],
    foreign: int,
    naming: Naming,
    numbers: Mapping[str, tuple[int, ...]],
) -> tuple[GpuView, ...]:
    holders = {index: pod.attempt for pod in ours for index in numbers.get(pod.uid, ())}
    free = [index for index in range(node.has.gpus) if index not in holders]
    taken = set(free[max(0, len(free) - foreign) :]) if foreign else set()
    series, product = naming.find_series(node), node.labels.get(PRODUCT, "")
    views = []
    for index in range(node.has.gpus):
        state = GpuState.HELD if index in holders else GpuState.FOREIGN if index in taken else GpuState.FREE
        views.append(
            GpuView(
                uuid=_name_gpu(node.name, index),
                index=index,
                name=product or series or "gpu",
                series=series,
                memory_bytes=None,
                state=state,
                attempt=holders.get(index),
                why=say("kuberay.gpu_foreign") if state is GpuState.FOREIGN else "",
            )
        )
    return tuple(views)


def _name_gpu(node: str, index: int) -> str:
    return f"{node}/gpu/{index}"
